// Adds to each line of bodies.py about a record of __consumer_offsets the bytes that Kafka's own classes write for it.
//
//     java -cp kafka-clients-4.3.1.jar:kafka-group-coordinator-4.3.1.jar:slf4j-api.jar:<jackson jars> Records.java < bodies.jsonl > consumer-offsets.jsonl

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public class Records {
    public static void main(String[] arguments) throws Exception {
        var mapper = new ObjectMapper();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            var record = (ObjectNode) mapper.readTree(line);
            short version = (short) record.get("version").asInt();
            String name = "org.apache.kafka.coordinator.group.generated." + record.get("record").asText() + "JsonConverter";
            Message message = (Message) Class.forName(name).getMethod("read", JsonNode.class, short.class)
                .invoke(null, record.get("body"), version);
            var buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            record.put("hex", String.format("%04x", record.get("prefix").asInt()) + HexFormat.of().formatHex(bytes));
            System.out.write((mapper.writeValueAsString(record) + "\n").getBytes(StandardCharsets.UTF_8));
        }
        System.out.flush();
    }
}
