"""The ``innet`` command: one file per subcommand under ``commands/``.

* ``entry`` is the program, ``main`` its typer application; ``command_table`` lists the commands;
* ``command_group`` imports a command when it is called, and turns errors into exit codes;
* ``options`` are what several commands take; ``network_choice`` makes a topology of them;
* ``run_tables`` shows a run; ``background`` is ``innet up --detach``.

Nothing here imports the rest of innet before a command runs: help and completion answer at once.
"""
