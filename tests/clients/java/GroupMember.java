import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * A member of a group. Arguments: bootstrap, topic, group, file. Writes to the file what it was given ("read P O VALUE") before it commits,
 * and what it then committed ("committed P O"). Ends on SIGTERM.
 */
public final class GroupMember {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[2]);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("session.timeout.ms", "6000");
        config.put("heartbeat.interval.ms", "1000");
        config.put("default.api.timeout.ms", "10000");
        config.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        config.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        AtomicBoolean running = new AtomicBoolean(true);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            running.set(false);
            try {
                main.join(20_000);
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        try (Consumer<String, String> consumer = new KafkaConsumer<>(config);
                Writer noted = Files.newBufferedWriter(Path.of(args[3]), StandardCharsets.UTF_8)) {
            consumer.subscribe(List.of(args[1]));
            while (running.get()) {
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(300))) {
                    noted.write("read " + r.partition() + " " + r.offset() + " " + r.value() + "\n");
                    next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                }
                noted.flush();
                try {
                    consumer.commitSync(next);
                    for (Map.Entry<TopicPartition, OffsetAndMetadata> e : next.entrySet()) {
                        noted.write("committed " + e.getKey().partition() + " " + e.getValue().offset() + "\n");
                    }
                } catch (KafkaException error) {
                    // The group rebalances, or its coordinator is on its way to another broker: whoever has the partition next reads again.
                    System.err.println(error);
                }
                noted.flush();
            }
        }
    }
}
