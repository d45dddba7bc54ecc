import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/**
 * Kafka's own client, and the classes with which it reads its small files: does what each line of the standard input orders, as JSON, and
 * says in a line what came of it. Argument: the bootstrap servers. Partition 0 is meant everywhere.
 */
public final class Hand {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final String bootstrap;
    private final Admin admin;
    private final Map<String, Producer<byte[], byte[]>> producers = new HashMap<>();

    private Hand(String bootstrap) {
        this.bootstrap = bootstrap;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] args) throws Exception {
        Hand hand = new Hand(args[0]);
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = orders.readLine()) != null; ) {
            JsonNode order = JSON.readTree(line);
            ObjectNode done = JSON.createObjectNode();
            try {
                hand.carryOut(order, done);
            } catch (Exception error) {
                done.removeAll();
                done.put("failed", error.toString());
            }
            out.println(JSON.writeValueAsString(done));
        }
        // Whoever ended the broker waits for nobody.
        Runtime.getRuntime().halt(0);
    }

    private void carryOut(JsonNode order, ObjectNode done) throws Exception {
        String topic = order.path("topic").asText();
        switch (order.get("do").asText()) {
            case "topic" -> {
                NewTopic made = new NewTopic(topic, 1, (short) 1).configs(texts(order.path("configs")));
                CreateTopicsResult result = admin.createTopics(List.of(made));
                result.all().get();
                done.put("id", result.topicId(topic).get().toString());
            }
            case "set" -> {
                List<AlterConfigOp> changes = new ArrayList<>();
                texts(order.get("configs")).forEach(
                        (key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
                admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), changes)).all().get();
            }
            case "produce" -> produce(topic, order, producer(order), done);
            case "transact" -> transact(topic, order, done);
            case "pour" -> pour(topic);
            case "poured" -> done.put("acknowledged", poured);
            case "offsets" -> offsets(topic, done);
            case "find" -> {
                TopicPartition where = new TopicPartition(topic, 0);
                OffsetSpec time = OffsetSpec.forTimestamp(order.get("time").asLong());
                done.put("offset", admin.listOffsets(Map.of(where, time)).all().get().get(where).offset());
            }
            case "delete" -> {
                RecordsToDelete before = RecordsToDelete.beforeOffset(order.get("before").asLong());
                admin.deleteRecords(Map.of(new TopicPartition(topic, 0), before)).all().get();
            }
            case "producers" -> producers(topic, done);
            case "read" -> read(topic, order.path("isolation").asText("read_uncommitted"), done);
            case "files" -> files(order, done);
            case "ask" -> Wire.ask(bootstrap, order, done);
            case "batch" -> Wire.batch(order, done);
            default -> throw new IllegalArgumentException("no such order");
        }
    }

    private static Map<String, String> texts(JsonNode pairs) {
        Map<String, String> texts = new HashMap<>();
        for (var pair : pairs.properties()) texts.put(pair.getKey(), pair.getValue().asText());
        return texts;
    }

    /** A producer for each codec and name; one with a name keeps its id and goes on with its sequences. */
    private Producer<byte[], byte[]> producer(JsonNode order) {
        String codec = order.path("codec").asText("none"), name = order.path("producer").asText("");
        return producers.computeIfAbsent(codec + " " + name, key -> {
            Map<String, Object> config = config();
            config.put("compression.type", codec);
            config.put("enable.idempotence", !name.isEmpty());
            return new KafkaProducer<>(config);
        });
    }

    private Map<String, Object> config() {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("acks", "all");
        // Batches are ended by a flush alone.
        config.put("linger.ms", 60_000);
        config.put("delivery.timeout.ms", 120_000);
        config.put("batch.size", 1 << 20);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        return config;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private static void produce(String topic, JsonNode order, Producer<byte[], byte[]> producer, ObjectNode done) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        int batch = order.path("batch").asInt(Integer.MAX_VALUE);
        for (JsonNode given : order.get("records")) {
            ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>(topic, 0, given.get("timestamp").asLong(), bytes(given.get("key")), bytes(given.get("value")));
            for (JsonNode header : given.path("headers")) record.headers().add(header.get(0).asText(), bytes(header.get(1)));
            sent.add(producer.send(record));
            if (sent.size() % batch == 0) producer.flush();
        }
        producer.flush();
        ArrayNode offsets = done.putArray("offsets");
        for (Future<RecordMetadata> one : sent) offsets.add(one.get().offset());
    }

    private void transact(String topic, JsonNode order, ObjectNode done) throws Exception {
        String id = order.get("id").asText();
        Producer<byte[], byte[]> producer = producers.get("transaction " + id);
        if (producer == null) {
            Map<String, Object> config = config();
            config.put("transactional.id", id);
            producer = new KafkaProducer<>(config);
            producer.initTransactions();
            producers.put("transaction " + id, producer);
        }
        producer.beginTransaction();
        produce(topic, order, producer, done);
        switch (order.get("end").asText()) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> { }
        }
    }

    private volatile long poured = -1;

    /** Sends one record after the other until it cannot any more. */
    private void pour(String topic) {
        Map<String, Object> config = config();
        config.put("linger.ms", 0);
        Producer<byte[], byte[]> producer = new KafkaProducer<>(config);
        Thread thread = new Thread(() -> {
            for (long number = 0; ; number++) {
                byte[] value = ("poured " + number + " " + "and more ".repeat((int) (number % 50))).getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(topic, 0, null, value), (where, error) -> {
                    if (error == null) poured = Math.max(poured, where.offset());
                });
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void offsets(String topic, ObjectNode done) throws Exception {
        TopicPartition where = new TopicPartition(topic, 0);
        done.put("start", admin.listOffsets(Map.of(where, OffsetSpec.earliest())).all().get().get(where).offset());
        done.put("end", admin.listOffsets(Map.of(where, OffsetSpec.latest())).all().get().get(where).offset());
    }

    private void producers(String topic, ObjectNode done) throws Exception {
        TopicPartition where = new TopicPartition(topic, 0);
        ArrayNode all = done.putArray("producers");
        for (ProducerState state : admin.describeProducers(List.of(where)).partitionResult(where).get().activeProducers()) {
            ObjectNode one = all.addObject();
            one.put("id", state.producerId());
            one.put("epoch", state.producerEpoch());
            one.put("last_sequence", state.lastSequence());
            one.put("open_from", state.currentTransactionStartOffset().isPresent() ? state.currentTransactionStartOffset().getAsLong() : null);
        }
    }

    private void read(String topic, String isolation, ObjectNode done) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("isolation.level", isolation);
        config.put("auto.offset.reset", "none");
        config.put("max.poll.records", 100_000);
        ArrayNode records = done.putArray("records");
        TopicPartition where = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(where));
            consumer.seekToBeginning(List.of(where));
            long end = consumer.endOffsets(List.of(where)).get(where);
            done.put("start", consumer.position(where));
            done.put("end", end);
            for (int empty = 0; consumer.position(where) < end; ) {
                long before = consumer.position(where);
                var polled = consumer.poll(Duration.ofSeconds(4));
                // What was aborted is passed over, and nothing is given of it.
                empty = consumer.position(where) == before ? empty + 1 : 0;
                if (empty > 1) throw new IllegalStateException("nothing comes any more at " + consumer.position(where));
                for (var record : polled) {
                    ObjectNode one = records.addObject();
                    one.put("offset", record.offset());
                    one.put("timestamp", record.timestamp());
                    one.put("key", text(record.key()));
                    one.put("value", text(record.value()));
                    ArrayNode headers = one.putArray("headers");
                    for (Header header : record.headers()) headers.addArray().add(header.key()).add(text(header.value()));
                }
            }
        }
    }

    /** Small files, read by the classes with which a broker reads them. */
    private void files(JsonNode order, ObjectNode done) throws Exception {
        LogDirFailureChannel failures = new LogDirFailureChannel(10);
        ObjectNode epochs = done.putObject("epochs");
        for (JsonNode path : order.path("epochs")) {
            ArrayNode entries = epochs.putArray(path.asText());
            for (var entry : new LeaderEpochCheckpointFile(new File(path.asText()), failures).read()) {
                entries.addArray().add(entry.epoch()).add(entry.startOffset());
            }
        }
        ObjectNode offsets = done.putObject("offsets");
        for (JsonNode path : order.path("offsets")) {
            ObjectNode entries = offsets.putObject(path.asText());
            new OffsetCheckpointFile(new File(path.asText()), failures).read().forEach((where, offset) -> entries.put(where.toString(), offset));
        }
        ObjectNode ids = done.putObject("ids");
        for (JsonNode path : order.path("metadata")) {
            ids.put(path.asText(), new PartitionMetadataFile(new File(path.asText()), failures).read().topicId().toString());
        }
    }
}
