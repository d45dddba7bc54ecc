import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.Crc32C;

/** Requests of Kafka's protocol as they are asked for, also those that no client would send, and batches for them. */
final class Wire {
    private static final int AT_CRC = 17, CRC_FROM = 21;

    private Wire() {}

    /** Sends one request over a connection of its own and gives the answer, with the records of a Fetch beside it. */
    static void ask(String bootstrap, JsonNode order, ObjectNode done) throws Exception {
        String name = order.get("api").asText();
        short version = order.get("version").shortValue();
        ApiMessage body = (ApiMessage) converter(name + "Request").getMethod("read", JsonNode.class, short.class).invoke(null, order.get("body"), version);
        ApiMessageType api = ApiMessageType.fromApiKey(body.apiKey());
        RequestHeaderData header =
                new RequestHeaderData().setRequestApiKey(body.apiKey()).setRequestApiVersion(version).setCorrelationId(7).setClientId("wire");
        String[] host = bootstrap.split(":");
        try (Socket socket = new Socket(host[0], Integer.parseInt(host[1]))) {
            socket.setSoTimeout(30_000);
            ByteBuffer head = MessageUtil.toByteBufferAccessor(header, api.requestHeaderVersion(version)).buffer();
            ByteBuffer rest = MessageUtil.toByteBufferAccessor(body, version).buffer();
            ByteBuffer frame = ByteBuffer.allocate(4 + head.remaining() + rest.remaining());
            frame.putInt(head.remaining() + rest.remaining()).put(head).put(rest);
            socket.getOutputStream().write(frame.array());
            DataInputStream in = new DataInputStream(socket.getInputStream());
            ByteBufferAccessor answer = new ByteBufferAccessor(ByteBuffer.wrap(in.readNBytes(in.readInt())));
            new ResponseHeaderData(answer, api.responseHeaderVersion(version));
            ApiMessage response = api.newResponse();
            response.read(answer, version);
            JsonNode told = (JsonNode) converter(name + "Response")
                    .getMethod("write", response.getClass(), short.class, boolean.class).invoke(null, response, version, false);
            done.set("answer", told);
            if (response instanceof FetchResponseData fetched) {
                var records = done.putArray("records");
                for (var topic : fetched.responses()) {
                    for (var part : topic.partitions()) {
                        ByteBuffer bytes = part.records() == null ? ByteBuffer.allocate(0) : ((MemoryRecords) part.records()).buffer();
                        byte[] copy = new byte[bytes.remaining()];
                        bytes.get(copy);
                        records.add(copy);
                    }
                }
            }
        } catch (EOFException end) {
            done.put("closed", true);
        }
    }

    private static Class<?> converter(String message) throws ClassNotFoundException {
        return Class.forName("org.apache.kafka.common.message." + message + "DataJsonConverter");
    }

    /** A batch as a producer sends it; bytes may be put over it, and its CRC is then reckoned again unless it is to be wrong. */
    static void batch(JsonNode order, ObjectNode done) {
        List<SimpleRecord> records = new ArrayList<>();
        for (JsonNode given : order.get("records")) {
            records.add(new SimpleRecord(given.get("timestamp").asLong(), bytes(given.get("key")), bytes(given.get("value"))));
        }
        Compression codec = Compression.of(order.path("codec").asText("none")).build();
        ByteBuffer buffer = MemoryRecords.withRecords(codec, records.toArray(new SimpleRecord[0])).buffer();
        byte[] batch = new byte[buffer.remaining()];
        buffer.get(batch);
        for (JsonNode put : order.path("put")) {
            byte[] over = HexFormat.of().parseHex(put.get(1).asText());
            System.arraycopy(over, 0, batch, put.get(0).asInt(), over.length);
        }
        int crc = (int) Crc32C.compute(batch, CRC_FROM, batch.length - CRC_FROM);
        ByteBuffer.wrap(batch).putInt(AT_CRC, order.path("torn").asBoolean() ? ~crc : crc);
        done.put("batch", batch);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }
}
