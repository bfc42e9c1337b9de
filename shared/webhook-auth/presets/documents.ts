import type { Preset } from "../sender-description.ts";
import type { Scheme } from "../signature-scheme.ts";
import { stripeLike } from "./commerce.ts";

/** Returns one of HubSpot's older signatures, which are plain hashes, not HMACs. */
function hubspotHash(version: "v1" | "v2", signed: string): Scheme {
  return {
    header: "X-HubSpot-Signature",
    algorithm: "sha256",
    signed,
    require: { "X-HubSpot-Signature-Version": version },
  };
}

/**
 * A delivery is a batch of events. Its id must not depend on the whole body, which contains HubSpot's attempt counter.
 */
const hubspotEvents = {
  delivery_id: "{body:/*/subscriptionId}:{body:/*/eventId}:{body:/*/occurredAt}",
  event_type: "{body:/0/subscriptionType}",
} as const;

/** Senders for files, forms, contracts, customers and calendars. */
export const documents = {
  dropbox: {
    sender: "Dropbox",
    source: "https://www.dropbox.com/developers/reference/webhooks",
    setup: "App console > the app > Webhooks. `secret` is the app secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-Dropbox-Signature", algorithm: "hmac-sha256" },
      handshakes: [
        { method: "GET", when: { "{query:challenge}": "*" }, proof: "none", body: "{query:challenge}" },
      ],
      answer: { status: 200 },
    },
  },
  box: {
    sender: "Box",
    source: "https://developer.box.com/guides/webhooks/v2/signatures-v2/",
    setup:
      "Developer console > the app > Webhooks. `secret` is the list of the primary and the secondary key.",
    endpoint: {
      auth: "signature",
      signature: {
        header: ["BOX-SIGNATURE-PRIMARY", "BOX-SIGNATURE-SECONDARY"],
        any_header: true,
        encoding: "base64",
        algorithm: "hmac-sha256",
        signed: "{body}{timestamp}",
        timestamp: { header: "BOX-DELIVERY-TIMESTAMP", unit: "rfc3339", past_secs: 600, future_secs: 60 },
        require: { "BOX-SIGNATURE-VERSION": "1", "BOX-SIGNATURE-ALGORITHM": "HmacSHA256" },
      },
      // BOX-DELIVERY-ID changes with each attempt, so it cannot be the delivery id.
      delivery_id: "{body:/id}",
      event_type: "{body:/trigger}",
      forward_headers: ["BOX-DELIVERY-ID"],
    },
  },
  asana: {
    sender: "Asana",
    source: "https://developers.asana.com/docs/webhooks-guide",
    setup:
      "Leave `secret` out, run `postern endpoints open <path>`, and create the webhook through the API with the URL. The command shows the secret that Asana sends: set it as `secret`, and restart the gateways.",
    open: ["Asana sends an empty delivery every eight hours, which is also a call."],
    endpoint: {
      auth: "signature",
      signature: { header: "X-Hook-Signature", algorithm: "hmac-sha256" },
      handshakes: [
        {
          when: { "{header:X-Hook-Secret}": "*" },
          proof: { secret_header: "X-Hook-Secret" },
          headers: { "X-Hook-Secret": "{header:X-Hook-Secret}" },
        },
      ],
      answer: { status: 200 },
    },
  },
  airtable: {
    sender: "Airtable",
    source: "https://airtable.com/developers/web/api/webhooks-overview",
    setup: "Create the webhook through the API with the URL. `secret` is `macSecretBase64` of the answer.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-Airtable-Content-MAC",
        prefix: "hmac-sha256=",
        algorithm: "hmac-sha256",
        secret_format: "base64",
      },
      answer: { status: 200, body: "" },
    },
  },
  typeform: {
    sender: "Typeform",
    source: "https://www.typeform.com/developers/webhooks/secure-your-webhooks/",
    setup: "The form > Connect > Webhooks: set your own secret.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "Typeform-Signature",
        prefix: "sha256=",
        encoding: "base64",
        algorithm: "hmac-sha256",
      },
      delivery_id: "{body:/event_id}",
      event_type: "{body:/event_type}",
    },
  },
  tally: {
    sender: "Tally",
    source: "https://tally.so/help/webhooks",
    setup: "The form > Integrations > Webhooks: set your own signing secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "Tally-Signature", encoding: "base64", algorithm: "hmac-sha256" },
      delivery_id: "{body:/eventId}",
      event_type: "{body:/eventType}",
    },
  },
  docusign: {
    sender: "DocuSign Connect",
    source: "https://developers.docusign.com/platform/webhooks/connect/validate/",
    setup:
      "Settings > Connect: set JSON and an HMAC key. Every active key signs: list the keys that you trust in `secret`.",
    endpoint: {
      auth: "signature",
      signature: {
        header: Array.from({ length: 100 }, (_, index) => `X-DocuSign-Signature-${index + 1}`),
        any_header: true,
        encoding: "base64",
        algorithm: "hmac-sha256",
      },
      event_type: "{body:/event}",
      answer: { status: 200 },
    },
  },
  nylas: {
    sender: "Nylas (v3)",
    source: "https://developer.nylas.com/docs/v3/notifications/",
    setup:
      "Set a random text as `secret`, because Nylas makes its handshake first. Create the webhook through the API with the URL. Then set `webhook_secret` of the answer as `secret`, and run `postern reload`.",
    endpoint: {
      auth: "signature",
      // If the body is compressed, the signature covers the compressed bytes.
      signature: { header: "X-Nylas-Signature", algorithm: "hmac-sha256" },
      delivery_id: "{body:/id}",
      event_type: "{body:/type}",
      encoded_bodies: "decode",
      handshakes: [
        { method: "GET", when: { "{query:challenge}": "*" }, proof: "none", body: "{query:challenge}" },
      ],
      answer: { status: 200 },
    },
  },
  workos: {
    sender: "WorkOS",
    source: "https://workos.com/docs/events/data-syncing/webhooks",
    setup: "Dashboard > Webhooks > Create webhook.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "WorkOS-Signature",
        list: { separator: ", ", key: "v1" },
        algorithm: "hmac-sha256",
        signed: "{timestamp}.{body}",
        timestamp: { pair: "t", unit: "ms", past_secs: 180, future_secs: 180 },
      },
      delivery_id: "{body:/id}",
      event_type: "{body:/event}",
      answer: { status: 200 },
    },
  },
  calendly: {
    sender: "Calendly",
    source: "https://developer.calendly.com/api-docs/4c305798a61d3-webhook-signatures",
    setup: "Create the subscription through the API with the URL and your own `signing_key`.",
    endpoint: {
      auth: "signature",
      signature: stripeLike("Calendly-Webhook-Signature", 180),
      event_type: "{body:/event}",
    },
  },
  "cal-com": {
    sender: "Cal.com",
    source: "https://cal.com/docs/developing/guides/automation/webhooks",
    setup: "Settings > Developer > Webhooks: set your own secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-Cal-Signature-256", algorithm: "hmac-sha256" },
      event_type: "{body:/triggerEvent}",
    },
  },
  hubspot: {
    sender: "HubSpot (v3)",
    source: "https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests",
    setup: "The app > Webhooks: write the URL without percent-escapes. `secret` is the app's client secret.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-HubSpot-Signature-v3",
        encoding: "base64",
        algorithm: "hmac-sha256",
        signed: "{method}{url}{body}{timestamp}",
        timestamp: { header: "X-HubSpot-Request-Timestamp", unit: "ms", past_secs: 300, future_secs: 300 },
      },
      ...hubspotEvents,
    },
  },
  "hubspot-v1": {
    sender: "HubSpot (v1, events of CRM objects)",
    source: "https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests",
    setup:
      "The app > Webhooks. `secret` is the app's client secret. If you know the public URL, use `hubspot`: its signature covers a time.",
    endpoint: {
      auth: "signature",
      signature: hubspotHash("v1", "{secret}{body}"),
      ...hubspotEvents,
    },
  },
  "hubspot-v2": {
    sender: "HubSpot (v2, webhooks of workflows)",
    source: "https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests",
    setup:
      "The workflow > Send a webhook: set POST, and the request signature with the id of your app as authentication. `secret` is the app's client secret.",
    endpoint: { auth: "signature", signature: hubspotHash("v2", "{secret}{method}{url}{body}") },
  },
} as const satisfies Readonly<Record<string, Preset>>;
