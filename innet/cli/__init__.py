"""The ``innet`` command: one file per subcommand under ``commands/``.

* ``entry`` is the program; ``main`` its typer application, which imports a command when it is
  called and turns errors into exit codes; ``command_table`` lists the commands;
* ``options`` are what several commands take; ``network_choice`` makes a topology, ranks and
  settings of them, ``key_choice`` signers and validators;
* ``run_tables`` shows a run, fitted to the ``terminal``; ``experiments`` runs and shows simulations
  and comparisons.

Nothing here imports the rest of innet before a command runs: help and completion answer at once.
"""
