import type { Preset } from "../sender-description.ts";
import type { Scheme } from "../signature-scheme.ts";

const discord: Scheme = {
  header: "X-Signature-Ed25519",
  algorithm: "ed25519",
  secret_format: "ed25519-hex",
  signed: "{timestamp}{body}",
  timestamp: { header: "X-Signature-Timestamp", unit: "s", past_secs: 300, future_secs: 300 },
};

/**
 * Returns Twilio's scheme with this algorithm. Twilio can sign with either one, under the same key. Its header
 * X-Twilio-Webhooks-Signature-Settings names the algorithms, but is not read, because it is not signed.
 */
function twilio(algorithm: "hmac-sha1" | "hmac-sha256"): Scheme {
  return {
    header: "X-Twilio-Signature",
    encoding: "base64",
    algorithm,
    signed: "{url}{form}",
    twilio: true,
  };
}

/** Senders for chat, mail, telephone, video and social networks. */
export const messaging = {
  slack: {
    sender: "Slack",
    source: "https://docs.slack.dev/authentication/verifying-requests-from-slack",
    setup: "The app's page > Event Subscriptions. `secret` is the signing secret under Basic Information.",
    open: ["A slash command has no id: within `past_secs`, each copy of it is a new call."],
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-Slack-Signature",
        prefix: "v0=",
        algorithm: "hmac-sha256",
        signed: "v0:{timestamp}:{body}",
        timestamp: { header: "X-Slack-Request-Timestamp", unit: "s", past_secs: 300, future_secs: 300 },
      },
      delivery_id: "{body:/event_id}",
      event_type: "{body:/event/type}",
      forward_headers: ["X-Slack-Retry-Num", "X-Slack-Retry-Reason"],
      handshakes: [
        { when: { "{body:/type}": "url_verification" }, proof: "credential", body: "{body:/challenge}" },
        // With this request, Slack checks from time to time the TLS certificate of a command's URL.
        {
          when: { "{header:Content-Type}": "application/x-www-form-urlencoded*" },
          form: { ssl_check: "1", token: "*" },
          proof: "none",
        },
      ],
      // Slack shows the answer to a slash command in the chat, so the body is empty.
      answer: { status: 200, body: "" },
    },
  },
  "discord-interactions": {
    sender: "Discord interactions (slash commands and buttons)",
    source: "https://docs.discord.com/developers/interactions/overview",
    setup:
      "The application's page > General Information: set the interactions endpoint URL. `secret` is the public key on the same page.",
    open: [
      'Postern answers Discord with "deferred" (type 5), and the runner must send the reply itself. Autocompletion needs another answer, so it does not work.',
    ],
    endpoint: {
      auth: "signature",
      signature: discord,
      delivery_id: "{body:/id}",
      event_type: "{body:/type}",
      handshakes: [{ when: { "{body:/type}": "1" }, proof: "credential", json: { type: 1 } }],
      // Discord tests the endpoint with wrong signatures, and expects 401 for each.
      answer: { status: 200, content_type: "application/json", body: '{"type":5}', refusals_limited: 401 },
    },
  },
  "discord-events": {
    sender: "Discord webhook events (of an app)",
    source: "https://docs.discord.com/developers/events/webhook-events",
    setup: "The application's page > Webhooks. `secret` is the public key under General Information.",
    endpoint: {
      auth: "signature",
      signature: discord,
      event_type: "{body:/event/type}",
      handshakes: [
        { when: { "{body:/type}": "0" }, proof: "credential", status: 204, content_type: "application/json" },
      ],
      answer: { status: 204, content_type: "application/json", refusals_limited: 401 },
    },
  },
  twilio: {
    sender: "Twilio",
    source: "https://www.twilio.com/docs/usage/webhooks/webhooks-security",
    setup:
      "Set the URL, with POST, at the number or service. `secret` is the account's auth token. If a webhook rule signs with a shared key, add the key's secret to the list.",
    open: [
      "Form fields are signed without separators: `ab=c` and `a=bc` have the same signature. Nothing else of a form body is signed.",
    ],
    endpoint: {
      auth: "signature",
      signature: [twilio("hmac-sha1"), twilio("hmac-sha256")],
      delivery_id: "{header:I-Twilio-Idempotency-Token}",
      forward_headers: ["I-Twilio-Idempotency-Token"],
      // Twilio shows a warning for an answer that is not TwiML.
      answer: { status: 200, content_type: "text/xml", body: "<Response/>" },
    },
  },
  sendgrid: {
    sender: "Twilio SendGrid",
    source:
      "https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features",
    setup:
      "Settings > Mail Settings > Event Webhooks > Security features: turn on signature verification. `secret` is the public key.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-Twilio-Email-Event-Webhook-Signature",
        encoding: "base64",
        algorithm: "ecdsa-p256",
        secret_format: "spki",
        signed: "{timestamp}{body}",
        timestamp: {
          header: "X-Twilio-Email-Event-Webhook-Timestamp",
          unit: "s",
          past_secs: 300,
          future_secs: 300,
        },
      },
      delivery_id: "{body:/*/sg_event_id}",
      answer: { status: 200 },
    },
  },
  zoom: {
    sender: "Zoom",
    source: "https://developers.zoom.us/docs/api/webhooks/",
    setup:
      "App Marketplace > Manage > the app > Feature > Event Subscriptions. `secret` is the secret token.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "x-zm-signature",
        prefix: "v0=",
        algorithm: "hmac-sha256",
        signed: "v0:{timestamp}:{body}",
        timestamp: { header: "x-zm-request-timestamp", unit: "s", past_secs: 300, future_secs: 300 },
      },
      event_type: "{body:/event}",
      handshakes: [
        {
          when: { "{body:/event}": "endpoint.url_validation" },
          proof: "credential",
          mac: { of: "{body:/payload/plainToken}", encoding: "hex" },
          json: { plainToken: "{body:/payload/plainToken}", encryptedToken: "{mac}" },
        },
      ],
      answer: { status: 200 },
    },
  },
  meta: {
    sender: "Meta (WhatsApp, Messenger, Instagram)",
    source: "https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
    setup:
      "App dashboard > Webhooks: set your own verify token, which is `verify_token`. `secret` is the app secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-Hub-Signature-256", prefix: "sha256=", algorithm: "hmac-sha256" },
      event_type: "{body:/object}",
      handshakes: [
        {
          method: "GET",
          when: { "{query:hub.mode}": "subscribe" },
          proof: { verify_token: "hub.verify_token" },
          body: "{query:hub.challenge}",
        },
      ],
      answer: { status: 200 },
    },
  },
  x: {
    sender: "X (webhooks API)",
    source: "https://docs.x.com/x-api/webhooks/introduction",
    setup:
      "Register the URL through the webhooks API. `secret` is the app's consumer secret. If the app has an OAuth 2.0 client secret, put that first in the list.",
    endpoint: {
      auth: "signature",
      signature: {
        header: ["X-Twitter-Webhooks-Signature-OAuth2", "X-Twitter-Webhooks-Signature"],
        prefix: "sha256=",
        encoding: "base64",
        algorithm: "hmac-sha256",
      },
      handshakes: [
        {
          method: "GET",
          when: { "{query:crc_token}": "*" },
          proof: "none",
          mac: { of: "{query:crc_token}", encoding: "base64", prefix: "sha256=" },
          json: { response_token: "{mac}" },
        },
      ],
      answer: { status: 200 },
    },
  },
  twitch: {
    sender: "Twitch EventSub",
    source: "https://dev.twitch.tv/docs/eventsub/handling-webhook-events/",
    setup: "Create the subscription through the API with the URL as callback, and your own secret.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "Twitch-Eventsub-Message-Signature",
        prefix: "sha256=",
        algorithm: "hmac-sha256",
        signed: "{header:Twitch-Eventsub-Message-Id}{timestamp}{body}",
        timestamp: {
          header: "Twitch-Eventsub-Message-Timestamp",
          unit: "rfc3339",
          past_secs: 600,
          future_secs: 600,
        },
      },
      delivery_id: "{header:Twitch-Eventsub-Message-Id}",
      event_type: "{body:/subscription/type}",
      forward_headers: [
        "Twitch-Eventsub-Subscription-Type",
        "Twitch-Eventsub-Message-Type",
        "Twitch-Eventsub-Message-Retry",
      ],
      handshakes: [
        {
          // The header is not signed, so a stranger can set it. The body must therefore have the form of a challenge as
          // well.
          when: {
            "{header:Twitch-Eventsub-Message-Type}": "webhook_callback_verification",
            "{body:/challenge}": "*",
          },
          proof: "credential",
          body: "{body:/challenge}",
        },
      ],
      answer: { status: 200 },
    },
  },
  telegram: {
    sender: "Telegram bots",
    source: "https://core.telegram.org/bots/api#setwebhook",
    setup: "Call setWebhook with the URL and your own `secret_token`.",
    endpoint: {
      auth: "api-key",
      api_key_header: "X-Telegram-Bot-Api-Secret-Token",
      delivery_id: "{body:/update_id}",
      answer: { status: 200 },
    },
  },
  mailgun: {
    sender: "Mailgun",
    source: "https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks",
    setup: "Sending > Webhooks. `secret` is the HTTP webhook signing key.",
    endpoint: {
      auth: "signature",
      signature: {
        field: "/signature/signature",
        algorithm: "hmac-sha256",
        signed: "{body:/signature/timestamp}{body:/signature/token}",
        // Mailgun retries for eight hours, and a retry may have the time of the first attempt. So 12 hours are accepted.
        timestamp: { field: "/signature/timestamp", unit: "s", past_secs: 43_200, future_secs: 300 },
      },
      delivery_id: "{body:/signature/token}",
      event_type: "{body:/event-data/event}",
      answer: { status: 200 },
    },
  },
  postmark: {
    sender: "Postmark",
    source: "https://postmarkapp.com/developer/webhooks/webhooks-overview",
    setup:
      "Servers > the stream > Webhooks: set basic authentication. `username` and `secret` are its user name and password.",
    endpoint: { auth: "basic", event_type: "{body:/RecordType}", answer: { status: 200 } },
  },
  intercom: {
    sender: "Intercom",
    source: "https://developers.intercom.com/docs/webhooks/webhook-notifications",
    setup: "Developer hub > the app > Webhooks. `secret` is the app's client secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-Hub-Signature", prefix: "sha1=", algorithm: "hmac-sha1" },
      delivery_id: "{body:/id}",
      event_type: "{body:/topic}",
      handshakes: [{ method: "HEAD", proof: "none" }],
      answer: { status: 200 },
    },
  },
  zendesk: {
    sender: "Zendesk",
    source: "https://developer.zendesk.com/documentation/webhooks/verifying/",
    setup: "Admin Center > Webhooks: set POST and JSON. `secret` is the signing secret.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-Zendesk-Webhook-Signature",
        encoding: "base64",
        algorithm: "hmac-sha256",
        signed: "{timestamp}{body}",
        timestamp: {
          header: "X-Zendesk-Webhook-Signature-Timestamp",
          unit: "rfc3339",
          past_secs: 300,
          future_secs: 300,
        },
      },
      delivery_id: "{header:X-Zendesk-Webhook-Invocation-Id}",
      event_type: "{body:/type}",
      forward_headers: ["X-Zendesk-Webhook-Id", "X-Zendesk-Webhook-Invocation-Id", "X-Zendesk-Account-Id"],
    },
  },
  "teams-outgoing": {
    sender: "Microsoft Teams outgoing webhooks",
    source:
      "https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-outgoing-webhook",
    setup:
      "The team > Manage team > Apps > Create an outgoing webhook. `secret` is the security token, which is shown once.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "Authorization",
        prefix: "HMAC ",
        encoding: "base64",
        algorithm: "hmac-sha256",
        secret_format: "base64",
      },
      delivery_id: "{body:/id}",
      event_type: "{body:/type}",
      answer: {
        status: 200,
        content_type: "application/json",
        body: '{"type":"message","text":"Accepted."}',
      },
    },
  },
} as const satisfies Readonly<Record<string, Preset>>;
