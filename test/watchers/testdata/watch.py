# Watches by Python's watchdog. Arguments: what is watched, the file that is read, and the directory of markers.
import os
import sys
import threading

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

watched, file, markers = sys.argv[1:]


class Handler(FileSystemEventHandler):
    def __init__(self, read):
        self.read = read

    def on_any_event(self, event):
        if event.event_type in ("opened", "closed_no_write"):  # Newer versions report readers, of which this is one.
            return
        with open(self.read) as f:
            print(f.read(), flush=True)


observer = Observer()
observer.schedule(Handler(file), watched)
observer.schedule(Handler(os.path.join(markers, "marker")), markers)
observer.start()
print("ready", flush=True)
threading.Event().wait()
