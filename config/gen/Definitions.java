import java.io.FileOutputStream;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.zip.GZIPOutputStream;

import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Writes every configuration key that a Kafka broker knows as one line of definitions.tsv, and its documentation as
 * the same line of documentation.gz, which few ask for.
 *
 * Run it with the jars of the Kafka release on the class path:
 *
 *   java -cp "LIBS/*" Definitions.java definitions.tsv documentation.gz
 *
 * Columns: scope, name, type, default, flags, validator. A default of \\0 is null, \\1 is absent.
 * Keys stand in the order in which a broker describes them (that of a java.util.HashMap), internal ones last.
 */
public class Definitions {
    static PrintWriter out, docs;

    public static void main(String[] args) throws Exception {
        out = new PrintWriter(new OutputStreamWriter(new FileOutputStream(args[0]), StandardCharsets.UTF_8));
        docs = new PrintWriter(new OutputStreamWriter(new GZIPOutputStream(new FileOutputStream(args[1])), StandardCharsets.UTF_8));
        Class<?> dynamic = Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig");
        Set<?> all = (Set<?>) field(dynamic, "ALL_DYNAMIC_CONFIGS"), perBroker = (Set<?>) field(dynamic, "PER_BROKER_CONFIGS");
        scope("broker", (ConfigDef) field(Class.forName("org.apache.kafka.server.config.AbstractKafkaConfig"), "CONFIG_DEF"), all, perBroker);
        scope("topic", (ConfigDef) field(Class.forName("org.apache.kafka.storage.internals.log.LogConfig"), "CONFIG"), Set.of(), Set.of());
        scope("group", (ConfigDef) field(Class.forName("org.apache.kafka.coordinator.group.GroupConfig"), "CONFIG_DEF"), Set.of(), Set.of());
        scope("client-metrics", (ConfigDef) Class.forName("org.apache.kafka.server.metrics.ClientMetricsConfigs").getMethod("configDef").invoke(null), Set.of(), Set.of());
        out.close();
        docs.close();
    }

    static Object field(Object owner, String name) throws Exception {
        Field f = (owner instanceof Class<?> c ? c : owner.getClass()).getDeclaredField(name);
        f.setAccessible(true);
        return f.get(owner);
    }

    static void scope(String scope, ConfigDef def, Set<?> dynamic, Set<?> perBroker) throws Exception {
        // Required keys get a value, so that the map has every key.
        Map<String, Object> props = new HashMap<>();
        for (ConfigDef.ConfigKey k : def.configKeys().values())
            if (k.defaultValue == ConfigDef.NO_DEFAULT_VALUE) props.put(k.name, k.name.equals("process.roles") ? "broker" : "1");
        Map<String, ?> described = new AbstractConfig(def, props, false).nonInternalValues();
        List<String> names = new ArrayList<>(described.keySet());
        for (String n : def.configKeys().keySet()) if (!described.containsKey(n)) names.add(n);
        for (String n : names) {
            ConfigDef.ConfigKey k = def.configKeys().get(n);
            List<String> flags = new ArrayList<>();
            if (k.internalConfig) flags.add("internal");
            if (dynamic.contains(n)) flags.add(perBroker.contains(n) ? "per-broker" : "cluster-wide");
            Object d = k.defaultValue;
            String text = d == ConfigDef.NO_DEFAULT_VALUE ? "\\1" : d == null ? "\\0" : ConfigDef.convertToString(d, k.type);
            out.println(String.join("\t", scope, n, k.type.toString(), text, String.join(",", flags), validator(k.validator)));
            docs.println(k.documentation.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t"));
        }
    }

    @SuppressWarnings("unchecked")
    static String validator(ConfigDef.Validator v) throws Exception {
        if (v == null) return "";
        String name = v.getClass().getSimpleName();
        switch (name) {
            case "Range":
                return "range " + bound(field(v, "min")) + " " + bound(field(v, "max"));
            case "ValidString":
                return "one-of " + String.join(",", (List<String>) field(v, "validStrings"));
            case "CaseInsensitiveValidString":
                return "one-of-ignoring-case " + String.join(",", (Set<String>) field(v, "validStrings"));
            case "ValidList":
                return "list " + field(v, "isEmptyAllowed") + " " + field(v, "isNullAllowed") + " " + String.join(",", (List<String>) field(field(v, "validString"), "validStrings"));
            default:
                return name;
        }
    }

    static String bound(Object n) {
        return n == null ? "_" : n.toString();
    }
}
