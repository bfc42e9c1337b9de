import type { Preset } from "../sender-description.ts";
import type { Scheme, SecretFormat } from "../signature-scheme.ts";

/*
 * Standard Webhooks, and senders that use it with other header names.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */

/** Returns the settings that versions 1 and 1a of the scheme share. */
function signedBy(prefix: "webhook" | "svix") {
  return {
    header: `${prefix}-signature`,
    encoding: "base64",
    signed: `{header:${prefix}-id}.{timestamp}.{body}`,
    timestamp: { header: `${prefix}-timestamp`, unit: "s", past_secs: 300, future_secs: 300 },
  } as const;
}

/** Returns the scheme of version 1: HMAC-SHA-256 under a shared secret. */
export function v1(prefix: "webhook" | "svix", secret_format: SecretFormat): Scheme {
  const list = { separator: " ", assign: ",", key: "v1" };
  return { ...signedBy(prefix), algorithm: "hmac-sha256", list, secret_format };
}

/** Returns the scheme of version 1a: Ed25519, verified with a public key. */
function v1a(prefix: "webhook" | "svix"): Scheme {
  const list = { separator: " ", assign: ",", key: "v1a" };
  return { ...signedBy(prefix), algorithm: "ed25519", list, secret_format: "ed25519-whpk" };
}

const webhook = {
  auth: "signature",
  signature: [v1a("webhook"), v1("webhook", "base64-or-whsec")],
  delivery_id: "{header:webhook-id}",
  event_type: "{body:/type}",
} as const;

const svix = {
  ...webhook,
  signature: [v1a("svix"), v1("svix", "base64-or-whsec")],
  delivery_id: "{header:svix-id}",
} as const;

export const standardWebhooks = {
  "standard-webhooks": {
    sender: "Standard Webhooks (Render, Supabase, Brex and others)",
    source: "https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
    setup:
      "Copy the secret (`whsec_…`; at Supabase `v1,whsec_…`) or the public key (`whpk_…`). If the sender signs with both, one is enough.",
    endpoint: webhook,
  },
  svix: {
    sender: "Svix",
    source: "https://docs.svix.com/receiving/verifying-payloads/how-manual",
    setup: "The endpoint's page. If the headers are named `webhook-…`, use `standard-webhooks`.",
    endpoint: svix,
  },
  clerk: {
    sender: "Clerk",
    source: "https://clerk.com/docs/webhooks/sync-data",
    setup: "Dashboard > Webhooks.",
    endpoint: svix,
  },
  resend: {
    sender: "Resend",
    source: "https://resend.com/docs/dashboard/webhooks/verify-webhooks-requests",
    setup: "Webhooks.",
    endpoint: svix,
  },
  openai: {
    sender: "OpenAI",
    source: "https://platform.openai.com/docs/guides/webhooks",
    setup: "The project's settings > Webhooks.",
    endpoint: { ...webhook, signature: v1("webhook", "text-or-whsec") },
  },
  replicate: {
    sender: "Replicate",
    source: "https://replicate.com/docs/topics/webhooks/verify-webhook",
    setup:
      "When you create a prediction, set the URL as `webhook`, and the events in `webhook_events_filter`. `secret` is the `key` (`whsec_…`) in the API's answer to `GET /v1/webhooks/default/secret`.",
    endpoint: { ...webhook, signature: v1("webhook", "whsec"), event_type: "{body:/status}" },
  },
  polar: {
    sender: "Polar",
    source: "https://polar.sh/docs/integrate/webhooks/delivery",
    setup: "Settings > Webhooks > Add Endpoint: set the format Raw.",
    endpoint: {
      ...webhook,
      signature: v1("webhook", "text-or-whsec"),
      forward_headers: ["webhook-api-version"],
    },
  },
} as const satisfies Readonly<Record<string, Preset>>;
