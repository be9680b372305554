"""The ``innet`` command: one file per subcommand under ``commands/``.

* ``main`` puts the commands together; ``command_group`` turns errors into messages and exit codes;
* ``options`` are what several commands take; ``network_choice`` makes a topology of them;
* ``run_tables`` shows a run; ``background`` is ``innet up --detach``.

Nothing here imports the rest of innet before a command runs: help and completion answer at once.
"""
