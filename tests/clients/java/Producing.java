import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.Properties;
import org.apache.kafka.clients.producer.*;

/**
 * Sends each line of a file as a record, with no more configuration than most programs have, at so many bytes a second.
 * Notes the number of each acknowledged line in another file. Arguments: bootstrap, topic, file, acknowledgements, bytes a second.
 */
public final class Producing {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("acks", "all");
        config.put("retries", "3");
        config.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        config.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        double bytesASecond = Double.parseDouble(args[4]);
        long[] refused = {0};
        try (BufferedReader lines = Files.newBufferedReader(Path.of(args[2]), StandardCharsets.UTF_8);
                PrintWriter acknowledged = new PrintWriter(Files.newBufferedWriter(Path.of(args[3])));
                Producer<String, String> producer = new KafkaProducer<>(config)) {
            long begun = System.nanoTime(), sent = 0, number = 0;
            for (String line; (line = lines.readLine()) != null; number++) {
                long mine = number;
                producer.send(new ProducerRecord<>(args[1], line), (where, error) -> {
                    if (error == null) {
                        acknowledged.println(mine);
                    } else if (refused[0]++ < 3) {
                        System.err.println("line " + mine + ": " + error);
                    }
                });
                sent += line.length();
                long ahead = (long) (sent / bytesASecond * 1e9) - (System.nanoTime() - begun);
                if (ahead > 10_000_000) Thread.sleep(ahead / 1_000_000);
            }
            producer.flush();
        }
        System.err.println("java: " + refused[0] + " lines were refused and count as not acknowledged");
    }
}
