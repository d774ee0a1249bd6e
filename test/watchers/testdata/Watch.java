import static java.nio.file.StandardWatchEventKinds.ENTRY_CREATE;
import static java.nio.file.StandardWatchEventKinds.ENTRY_DELETE;
import static java.nio.file.StandardWatchEventKinds.ENTRY_MODIFY;

import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;

/** Watches by a WatchService. Arguments: what is watched, the file that is read, and the directory of markers. */
public class Watch {
    public static void main(String[] args) throws Exception {
        Path watched = Path.of(args[0]), file = Path.of(args[1]), markers = Path.of(args[2]);
        WatchService service = FileSystems.getDefault().newWatchService();
        watched.register(service, ENTRY_CREATE, ENTRY_DELETE, ENTRY_MODIFY);
        markers.register(service, ENTRY_CREATE, ENTRY_DELETE, ENTRY_MODIFY);
        System.out.println("ready");
        while (true) {
            WatchKey key = service.take();
            key.pollEvents();
            boolean isMarker = key.watchable().equals(markers);
            System.out.println(Files.readString(isMarker ? markers.resolve("marker") : file));
            key.reset();
        }
    }
}
