import type { Preset } from "../sender-description.ts";

/** Senders of errors, alerts, incidents and signals. */
export const monitoring = {
  sentry: {
    sender: "Sentry",
    source: "https://docs.sentry.io/organization/integrations/integration-platform/webhooks/",
    setup:
      "Settings > Custom Integrations > an internal integration: set the webhook URL. `secret` is its client secret.",
    endpoint: {
      auth: "signature",
      // Sentry-Hook-Timestamp is not signed, so it proves nothing.
      signature: { header: "Sentry-Hook-Signature", algorithm: "hmac-sha256" },
      event_type: "{header:Sentry-Hook-Resource}",
      forward_headers: ["Sentry-Hook-Resource", "Sentry-Hook-Timestamp", "Request-ID"],
      answer: { status: 200 },
    },
  },
  pagerduty: {
    sender: "PagerDuty (v3)",
    source: "https://developer.pagerduty.com/docs/verifying-webhook-signatures",
    setup: "Integrations > Generic Webhooks (v3). The secret is shown once.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-PagerDuty-Signature",
        list: { separator: ",", key: "v1" },
        algorithm: "hmac-sha256",
      },
      delivery_id: "{body:/event/id}",
      event_type: "{body:/event/event_type}",
    },
  },
  grafana: {
    sender: "Grafana alerting (signed from version 12 on)",
    source:
      "https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/",
    setup:
      "Alerting > Contact points > Webhook > Optional webhook settings > HMAC Signature: set your own secret.",
    open: ["While an alert fires, it is sent again, each time as a new call."],
    endpoint: {
      auth: "signature",
      signature: { header: "X-Grafana-Alerting-Signature", algorithm: "hmac-sha256" },
      methods: ["POST", "PUT"],
      event_type: "{body:/status}",
      answer: { status: 200, limited: 503 },
    },
  },
  alertmanager: {
    sender: "Prometheus Alertmanager",
    source: "https://prometheus.io/docs/alerting/latest/configuration/#webhook_config",
    setup:
      'In `webhook_configs`: set the URL, and `http_config` with your own secret as `authorization` credentials. For `basic_auth`, add `auth = "basic"` and `username`.',
    open: ["While an alert fires, it is sent again, each time as a new call."],
    endpoint: {
      auth: "bearer",
      event_type: "{body:/status}",
      // Alertmanager drops a notification that is answered with 4xx.
      answer: { status: 200, limited: 503 },
    },
  },
  datadog: {
    sender: "Datadog",
    source: "https://docs.datadoghq.com/integrations/webhooks/",
    setup:
      'Integrations > Webhooks > New: set the custom headers `{"Authorization": "Bearer <secret>"}`, with your own secret. A payload of your own must be JSON with `"id": "$ID"` and `"event_type": "$EVENT_TYPE"`.',
    endpoint: {
      auth: "bearer",
      delivery_id: "{body:/id}",
      event_type: "{body:/event_type}",
      // Datadog drops a notification that is answered with 4xx.
      answer: { status: 200, limited: 503 },
    },
  },
  tradingview: {
    sender: "TradingView",
    source: "https://www.tradingview.com/support/solutions/43000529348",
    setup:
      'The alert > Notifications > Webhook URL: set the URL with `?token=<secret>`, with your own secret. Or put the secret into the message, which must then be JSON, and set its field: `token_field = "/token"`.',
    endpoint: { auth: "token", token_query: "token", answer: { status: 200 } },
  },
  launchdarkly: {
    sender: "LaunchDarkly",
    source: "https://launchdarkly.com/docs/home/infrastructure/webhooks",
    setup: "Integrations > Webhooks: sign the webhook with a secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-LD-Signature", algorithm: "hmac-sha256" },
      delivery_id: "{body:/_id}",
      event_type: "{body:/kind}",
    },
  },
  okta: {
    sender: "Okta event hooks",
    source: "https://developer.okta.com/docs/concepts/event-hooks/",
    setup: "Workflow > Event Hooks: set the authentication field `Authorization`, and your own secret.",
    endpoint: {
      auth: "api-key",
      api_key_header: "Authorization",
      delivery_id: "{body:/eventId}",
      event_type: "{body:/eventType}",
      handshakes: [
        {
          method: "GET",
          when: { "{header:X-Okta-Verification-Challenge}": "*" },
          proof: "none",
          json: { verification: "{header:X-Okta-Verification-Challenge}" },
        },
      ],
      // Okta retries only after 5xx or no answer.
      answer: { status: 200, body: "", limited: 503 },
    },
  },
} as const satisfies Readonly<Record<string, Preset>>;
