"""The live view of a network in a browser, and recordings of it.

* ``layout``: where each node is drawn;
* ``document``: the JSON of a picture, of frames and of recording files;
* ``view_state``: frames from telemetry, events and looks of the doctor; sans-IO;
* ``history``: the last ten minutes, for pages that join and for export;
* ``access``: which requests are served; sans-IO;
* ``live``: the driver that follows a run;
* ``server``: Starlette and uvicorn, which the extra ``web`` installs;
* ``static/``: the page. It loads nothing from another host.

It may import what ``innet.observe`` may. Read ``view_state`` first.
"""
