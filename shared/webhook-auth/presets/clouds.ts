import type { Preset } from "../sender-description.ts";

/** Senders of cloud messages and events. */
export const clouds = {
  "google-pubsub": {
    sender: "Google Cloud Pub/Sub (push)",
    source: "https://docs.cloud.google.com/pubsub/docs/authenticate-push-subscriptions",
    setup:
      'Create a push subscription with *Enable authentication*: choose an audience, and a service account that does nothing else. `audience` is this audience, and `claims.email` the address of the account. `message.data` comes in base64. To get the data itself as body, enable payload unwrapping with metadata, and set `delivery_id = "{header:X-Goog-Pubsub-Message-Id} {header:X-Goog-Pubsub-Subscription-Name}"`.',
    endpoint: {
      auth: "jwt",
      // Tokens may have either spelling; Google's own libraries accept both.
      issuer: ["https://accounts.google.com", "accounts.google.com"],
      jwks: "https://www.googleapis.com/oauth2/v3/certs",
      algorithms: ["RS256"],
      // The audience alone proves nothing: any customer of Google can get a signed token for it.
      claims: { email_verified: true },
      // A message id is unique only in its topic, so the delivery id includes the subscription. The whole body could
      // not identify a delivery: with a dead-letter topic, Google counts the attempts in it.
      delivery_id: "{body:/message/messageId} {body:/subscription}",
    },
  },
  "aws-sns": {
    sender: "Amazon SNS",
    source: "https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html",
    setup:
      "Subscribe the URL to the topic with the protocol HTTPS, and leave raw message delivery off. `topics` lists the ARNs of the topics. At the topic, prefer signature version 2 (SHA-256).",
    endpoint: {
      auth: "aws-sns",
      delivery_id: "{body:/MessageId}",
      handshakes: [
        { when: { "{body:/Type}": "SubscriptionConfirmation" }, proof: "credential" },
        { when: { "{body:/Type}": "UnsubscribeConfirmation" }, proof: "credential" },
      ],
      answer: { status: 200 },
    },
  },
  "azure-event-grid": {
    sender: "Azure Event Grid (Event Grid schema)",
    source: "https://learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema",
    setup:
      "The event subscription > Web Hook: set the URL with `?access_token=<secret>`, with your own secret. Event Grid validates the URL at once, so reload the gateways before. For the CloudEvents schema, use [cloudevents](#cloudevents).",
    open: [
      "The URL holds the token, and proxies log URLs.",
      "If a batch fails, its events may come again in other batches, which are other calls. By default, a batch is one event.",
    ],
    endpoint: {
      auth: "token",
      token_query: "access_token",
      // The publisher of a custom topic chooses the event ids, so they are unique only in their topic.
      delivery_id: "{body:/*/id}:{body:/*/topic}",
      event_type: "{body:/0/eventType}",
      forward_headers: ["aeg-event-type", "aeg-subscription-name", "aeg-delivery-count"],
      handshakes: [
        {
          when: {
            "{header:aeg-event-type}": "SubscriptionValidation",
            "{body:/0/eventType}": "Microsoft.EventGrid.SubscriptionValidationEvent",
          },
          proof: "credential",
          json: { validationResponse: "{body:/0/data/validationCode}" },
        },
      ],
    },
  },
  cloudevents: {
    sender: "CloudEvents 1.0 over HTTP (also Azure Event Grid with its CloudEvents schema)",
    source: "https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md",
    setup:
      'Send `Authorization: Bearer <secret>`, with your own secret. If the sender can only send it in the URL, set `auth = "token"` and `token_query = "access_token"`. All three content modes are accepted. In the binary mode, the runner gets the attributes as headers, and the data as body. A batch is one call.',
    open: ["The answer to OPTIONS allows every origin and rate. An event still needs the secret."],
    endpoint: {
      auth: "bearer",
      // A space separates id and source unambiguously, because a source is a URI reference and contains no space.
      delivery_id: "{cloudevent:id} {cloudevent:source}",
      event_type: "{cloudevent:type}",
      forward_headers: [
        "ce-specversion",
        "ce-id",
        "ce-source",
        "ce-type",
        "ce-subject",
        "ce-time",
        "ce-dataschema",
      ],
      handshakes: [
        {
          method: "OPTIONS",
          when: { "{header:WebHook-Request-Origin}": "*" },
          proof: "none",
          headers: {
            Allow: "POST",
            "WebHook-Allowed-Origin": "{header:WebHook-Request-Origin}",
            "WebHook-Allowed-Rate": "*",
          },
        },
      ],
    },
  },
  "microsoft-graph": {
    sender: "Microsoft Graph change notifications",
    source: "https://learn.microsoft.com/graph/change-notifications-delivery-webhooks",
    setup:
      "Create the subscription with the URL as `notificationUrl` (and as `lifecycleNotificationUrl`), and your own secret as `clientState`. With several subscriptions, `secret` may be the list of their states. Each notification of a request must have one of them.",
    open: [
      "`validationTokens` of notifications with encrypted content are not checked: the runner that decrypts them must do that.",
    ],
    endpoint: {
      auth: "token",
      token_field: "/value/*/clientState",
      event_type: "{body:/value/0/changeType}",
      handshakes: [
        {
          when: { "{query:validationToken}": "*" },
          proof: "none",
          body: "{query:validationToken}",
        },
      ],
    },
  },
} satisfies Readonly<Record<string, Preset>>;
