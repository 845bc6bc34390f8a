import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;

/** A service of `bench services`: `java Service PORT KEYS WORDS`. GET /KEY answers with the value of a key, from a map of strings. */
public final class Service {
    /**
     * Returns a text of `words` times 8 characters, in which each group of eight characters stands twice.
     * The benchmark computes the same text.
     */
    private static String value(int key, int words) {
        int state = key * (int) 2654435761L + 12345;
        StringBuilder text = new StringBuilder(words * 8);
        for (int i = 0; i < words / 2; i++) {
            state = state * 1664525 + 1013904223;
            String word = String.format("%08x", state);
            text.append(word).append(word);
        }
        return text.toString();
    }

    public static void main(String[] args) throws Exception {
        int keys = Integer.parseInt(args[1]);
        int words = Integer.parseInt(args[2]);
        ConcurrentHashMap<Integer, String> values = new ConcurrentHashMap<>();
        for (int key = 0; key < keys; key++) {
            values.put(key, value(key, words));
        }
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        HttpServer server = HttpServer.create(new InetSocketAddress(loopback, Integer.parseInt(args[0])), 64);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            int key = Integer.parseInt(exchange.getRequestURI().getPath().substring(1));
            byte[] body = values.get(key).getBytes(StandardCharsets.ISO_8859_1);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
