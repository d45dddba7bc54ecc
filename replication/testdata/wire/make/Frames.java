// Adds to each line of bodies.py the frames that Kafka's own classes write for it.
//
//     java -cp kafka-clients-4.3.1.jar:slf4j-api.jar:<jackson jars> Frames.java < bodies.jsonl > kafka-clients.jsonl

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public class Frames {
    static String hex(String name, JsonNode json, short version) throws Exception {
        Class<?> converter = Class.forName("org.apache.kafka.common.message." + name + "DataJsonConverter");
        Message message = (Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, json, version);
        var buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    public static void main(String[] arguments) throws Exception {
        var mapper = new ObjectMapper();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            var exchange = (ObjectNode) mapper.readTree(line);
            short version = (short) exchange.get("api_version").asInt();
            String api = exchange.get("api").asText();
            ApiKeys key = ApiKeys.forId(exchange.get("api_key").asInt());
            JsonNode request = exchange.get("request");
            JsonNode response = exchange.get("response");
            exchange.put("request_hex", hex("RequestHeader", request.get("header"), key.requestHeaderVersion(version))
                + hex(api + "Request", request.get("body"), version));
            exchange.put("response_hex", hex("ResponseHeader", response.get("header"), key.responseHeaderVersion(version))
                + hex(api + "Response", response.get("body"), version));
            System.out.write((mapper.writeValueAsString(exchange) + "\n").getBytes(StandardCharsets.UTF_8));
        }
        System.out.flush();
    }
}
