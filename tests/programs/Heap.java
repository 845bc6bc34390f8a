import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;

/**
 * Fills a heap and replaces its objects again and again; run with -Xms512m -Xmx512m. Prints a checksum of
 * the objects that remain.
 */
public final class Heap {
    private static long mix(long x) {
        x += 0x9e3779b97f4a7c15L;
        x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
        x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
        return x ^ (x >>> 31);
    }

    private static byte[] payload(long key) {
        byte[] out = new byte[256 + (int) (key & 511)];
        for (int i = 0; i < out.length; i++) {
            out[i] = (byte) mix(key + i / 8);
        }
        return out;
    }

    private static long check(Map<Long, byte[]> kept) {
        long sum = 0;
        for (Map.Entry<Long, byte[]> entry : kept.entrySet()) {
            if (!Arrays.equals(entry.getValue(), payload(entry.getKey()))) {
                System.err.println("wrong value of key " + entry.getKey());
                System.exit(99);
            }
            sum += mix(Arrays.hashCode(entry.getValue()) ^ entry.getKey());
        }
        return sum;
    }

    public static void main(String[] args) throws IOException {
        int keep = args.length > 0 ? Integer.parseInt(args[0]) : 400_000;
        int churn = args.length > 1 ? Integer.parseInt(args[1]) : 3_000_000;
        Map<Long, byte[]> kept = new HashMap<>();
        long sum = 0;
        for (int i = 0; i < churn; i++) {
            long key = mix(i) & 0xffffffffffL;
            byte[] value = payload(key);
            sum += value[value.length - 1];
            if (kept.size() < keep) {
                kept.put(key, value);
            } else if (i % 16 == 0) {
                kept.put((long) mix(i % keep) & 0xffffffffffL, payload(mix(i % keep) & 0xffffffffffL));
            }
            if (i % (churn / 3) == churn / 3 - 1) {
                sum += check(kept);
            }
        }
        System.out.printf("OK kept=%d checksum=%016x%n", kept.size(), sum + check(kept));
        refusals();
        mappings();
    }

    /** Prints operations that the kernel refuses, and the error of each. */
    private static void refusals() {
        for (String path : new String[] {"/nowhere/x", "/", "/etc/passwd/x"}) {
            try (FileInputStream file = new FileInputStream(path)) {
                System.out.println(file.read());
            } catch (IOException error) {
                System.out.println(error.getMessage());
            }
        }
    }

    /**
     * Prints each kind of file mapping once: rights, flags and the name of the file. Addresses and numbers
     * of mappings differ from run to run. So do other mappings, because the compiler's threads start and
     * end.
     */
    private static void mappings() throws IOException {
        TreeSet<String> kinds = new TreeSet<>();
        String head = "";
        for (String line : Files.readAllLines(Path.of("/proc/self/smaps"))) {
            String[] words = line.trim().split(" +");
            if (words[0].matches("[0-9a-f]+-[0-9a-f]+")) {
                // The name of one of the files contains the pid.
                head = words[1] + " " + (words.length > 5 ? words[5].replaceAll("/[0-9]+$", "/PID") : "");
            } else if (words[0].equals("VmFlags:") && head.contains(" /")) {
                kinds.add(head + " " + String.join(" ", Arrays.copyOfRange(words, 1, words.length)));
            }
        }
        kinds.forEach(System.out::println);
    }
}
