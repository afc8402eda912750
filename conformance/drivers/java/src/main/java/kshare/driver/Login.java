package kshare.driver;

import java.util.Properties;

import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.kafka.common.security.scram.ScramLoginModule;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;

/** How a client says who it is, and whom it trusts. */
final class Login {
    private Login() {
    }

    /** take takes its settings out of those of the driver. */
    static void take(JsonObject settings, Properties p) {
        JsonElement mechanism = settings.remove("sasl_mechanism");
        JsonElement user = settings.remove("sasl_username");
        JsonElement password = settings.remove("sasl_password");
        JsonElement seconds = settings.remove("sasl_token_s");
        JsonElement authority = settings.remove("tls_ca");
        if (authority != null) {
            p.put("security.protocol", "SSL");
            p.put("ssl.truststore.type", "PEM");
            p.put("ssl.truststore.location", authority.getAsString());
        }
        if (mechanism == null)
            return;
        p.put("security.protocol", "SASL_PLAINTEXT");
        p.put("sasl.mechanism", mechanism.getAsString());
        if (mechanism.getAsString().equals("OAUTHBEARER")) {
            p.put("sasl.login.refresh.min.period.seconds", "0");
            p.put("sasl.login.refresh.buffer.seconds", "0");
            p.put("sasl.jaas.config", OAuthBearerLoginModule.class.getName() + " required unsecuredLoginStringClaim_sub=\"" + user.getAsString()
                + "\" unsecuredLoginLifetimeSeconds=\"" + seconds.getAsString() + "\";");
            return;
        }
        Class<?> module = mechanism.getAsString().equals("PLAIN") ? PlainLoginModule.class : ScramLoginModule.class;
        p.put("sasl.jaas.config", module.getName() + " required username=\"" + user.getAsString() + "\" password=\"" + password.getAsString() + "\";");
    }
}
