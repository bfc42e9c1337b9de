import type { Preset } from "../sender-description.ts";
import { v1 } from "./standard-webhooks.ts";

/** Senders for code, builds and project planning. */
export const codeHosts = {
  github: {
    sender: "GitHub",
    source: "https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
    setup: "Settings > Webhooks > Add webhook: set the content type `application/json`, and your own secret.",
    open: ["GitHub never retries a delivery by itself."],
    endpoint: {
      auth: "signature",
      signature: { header: "X-Hub-Signature-256", prefix: "sha256=", algorithm: "hmac-sha256" },
      delivery_id: "{header:X-GitHub-Delivery}",
      event_type: "{header:X-GitHub-Event}",
      forward_headers: ["X-GitHub-Event", "X-GitHub-Delivery", "X-GitHub-Hook-ID"],
    },
  },
  gitlab: {
    sender: "GitLab",
    source: "https://docs.gitlab.com/user/project/integrations/webhooks/",
    setup:
      "Settings > Webhooks > Add new webhook: set a signing token (`whsec_…`, from GitLab 19.0 on) or a secret token. While GitLab sends both, put both into `secret`.",
    endpoint: {
      auth: "signature",
      // If a request has a signature, the signature must be valid. The token is checked only in a request without a
      // signature.
      signature: [v1("webhook", "whsec"), { header: "X-Gitlab-Token", algorithm: "equal" }],
      delivery_id: "{header:webhook-id|Idempotency-Key}",
      event_type: "{header:X-Gitlab-Event}",
      forward_headers: [
        "X-Gitlab-Event",
        "X-Gitlab-Event-UUID",
        "X-Gitlab-Webhook-UUID",
        "X-Gitlab-Instance",
      ],
      // After several answers with 4xx, GitLab disables the webhook permanently.
      answer: { status: 202, limited: 503 },
    },
  },
  gitea: {
    sender: "Gitea and Forgejo",
    source: "https://docs.gitea.com/usage/repository/webhooks",
    setup:
      "Settings > Webhooks > Add webhook > Gitea: set POST, the content type `application/json`, and your own secret. Forms and unsigned deliveries are refused.",
    open: ["Gitea never retries a delivery by itself."],
    endpoint: {
      auth: "signature",
      // X-Hub-Signature-256 and X-Gogs-Signature hold the same signature in other forms, and are not read.
      signature: { header: "X-Gitea-Signature", algorithm: "hmac-sha256" },
      delivery_id: "{header:X-Gitea-Delivery}",
      event_type: "{header:X-Gitea-Event}",
      forward_headers: ["X-Gitea-Event", "X-Gitea-Event-Type", "X-Gitea-Delivery"],
    },
  },
  bitbucket: {
    sender: "Bitbucket (Cloud and Data Center)",
    source: "https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
    setup:
      "Repository settings > Webhooks > Add webhook: set your own secret. Without it, nothing is signed.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-Hub-Signature", prefix: "sha256=", algorithm: "hmac-sha256" },
      delivery_id: "{header:X-Request-UUID|X-Request-Id}",
      event_type: "{header:X-Event-Key}",
      forward_headers: ["X-Event-Key", "X-Request-UUID", "X-Hook-UUID", "X-Attempt-Number"],
      // The request that Bitbucket Data Center sends for "Test connection" is not signed.
      handshakes: [{ when: { "{header:X-Event-Key}": "diagnostics:ping" }, proof: "none" }],
    },
  },
  jira: {
    sender: "Jira (webhooks of an administrator)",
    source: "https://developer.atlassian.com/cloud/jira/platform/webhooks/",
    setup: "System > Webhooks: set your own secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-Hub-Signature", prefix: "sha256=", algorithm: "hmac-sha256" },
      delivery_id: "{header:X-Atlassian-Webhook-Identifier}",
      event_type: "{body:/webhookEvent}",
      forward_headers: ["X-Atlassian-Webhook-Identifier", "X-Atlassian-Webhook-Retry"],
    },
  },
  linear: {
    sender: "Linear",
    source: "https://linear.app/developers/webhooks",
    setup: "Settings > API > Webhooks > New webhook.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "Linear-Signature",
        algorithm: "hmac-sha256",
        // Linear's documentation recommends one minute. But Linear retries after one minute, one hour and six hours,
        // with the body of the first attempt.
        timestamp: { field: "/webhookTimestamp", unit: "ms", past_secs: 25_200, future_secs: 60 },
      },
      // The header Linear-Delivery is not signed, so the id consists of signed fields.
      delivery_id: "{body:/webhookId}:{body:/webhookTimestamp}:{body:/type}:{body:/action}:{body:/data/id}",
      event_type: "{body:/type}.{body:/action}",
      forward_headers: ["Linear-Event", "Linear-Delivery"],
      answer: { status: 200 },
    },
  },
  circleci: {
    sender: "CircleCI",
    source: "https://circleci.com/docs/guides/integration/outbound-webhooks/",
    setup: "Project settings > Webhooks > Add webhook: set your own secret token.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "circleci-signature",
        list: { separator: ",", key: "v1" },
        algorithm: "hmac-sha256",
      },
      delivery_id: "{body:/id}",
      event_type: "{body:/type}",
    },
  },
  buildkite: {
    sender: "Buildkite",
    source: "https://buildkite.com/docs/apis/webhooks/pipelines",
    setup:
      'Organization settings > Notification Services > Webhook: send the token as an HMAC signature. For a token in plain text, add `auth = "api-key"` and `api_key_header = "X-Buildkite-Token"`.',
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-Buildkite-Signature",
        list: { separator: ",", key: "signature" },
        algorithm: "hmac-sha256",
        signed: "{timestamp}.{body}",
        timestamp: { pair: "timestamp", unit: "s", past_secs: 300, future_secs: 300 },
      },
      event_type: "{body:/event}",
      forward_headers: ["X-Buildkite-Event"],
    },
  },
  vercel: {
    sender: "Vercel",
    source: "https://vercel.com/docs/webhooks/webhooks-api",
    setup: "Team settings > Webhooks. The secret is shown once. An integration signs with its client secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "x-vercel-signature", algorithm: "hmac-sha1" },
      delivery_id: "{body:/id}",
      event_type: "{body:/type}",
    },
  },
  npm: {
    sender: "npm hooks",
    source: "https://docs.npmjs.com/cli/v10/commands/npm-hook",
    setup: "`npm hook add <package> <url> <secret>`, with your own secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "x-npm-signature", prefix: "sha256=", algorithm: "hmac-sha256" },
      event_type: "{body:/event}",
    },
  },
  trello: {
    sender: "Trello",
    source: "https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/",
    setup:
      "Create the webhook through the REST API, with the URL as `callbackURL`. `secret` is the application's secret.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-Trello-Webhook",
        encoding: "base64",
        algorithm: "hmac-sha1",
        signed: "{body}{url}",
      },
      delivery_id: "{body:/action/id}",
      event_type: "{body:/action/type}",
      handshakes: [{ method: "HEAD", proof: "none" }],
      answer: { status: 200 },
    },
  },
} as const satisfies Readonly<Record<string, Preset>>;
