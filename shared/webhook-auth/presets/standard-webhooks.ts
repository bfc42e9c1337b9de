import type { Preset } from "../sender-description.ts";
import type { Scheme, SecretFormat } from "../signature-scheme.ts";

/*
 * Standard Webhooks, and senders that are it under other header names.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */

/** The signed bytes and the list of signatures are the same for every version of a signature. */
function signedBy(prefix: "webhook" | "svix") {
  return {
    header: `${prefix}-signature`,
    encoding: "base64",
    signed: `{header:${prefix}-id}.{timestamp}.{body}`,
    timestamp: { header: `${prefix}-timestamp`, unit: "s", past_secs: 300, future_secs: 300 },
  } as const;
}

/** Version 1: HMAC-SHA-256 under a shared secret. */
export function v1(prefix: "webhook" | "svix", secret_format: SecretFormat): Scheme {
  const list = { separator: " ", assign: ",", key: "v1" };
  return { ...signedBy(prefix), algorithm: "hmac-sha256", list, secret_format };
}

/** Version 1a: Ed25519 under a public key. */
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
    sender: "Standard Webhooks (Replicate, Render, Supabase, Brex and others)",
    source: "https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
    setup:
      "Copy the secret (`whsec_…`; at Supabase `v1,whsec_…`) or the public key (`whpk_…`) that the sender shows for the endpoint. If it signs with both, one of them is enough.",
    endpoint: webhook,
  },
  svix: {
    sender: "Svix",
    source: "https://docs.svix.com/receiving/verifying-payloads/how-manual",
    setup:
      "Copy the signing secret from the endpoint's page. If the headers do not have Svix' name (`webhook-id`), use `standard-webhooks`.",
    endpoint: svix,
  },
  clerk: {
    sender: "Clerk",
    source: "https://clerk.com/docs/webhooks/sync-data",
    setup: "Add an endpoint under Webhooks in the dashboard, and copy its signing secret.",
    endpoint: svix,
  },
  resend: {
    sender: "Resend",
    source: "https://resend.com/docs/dashboard/webhooks/verify-webhooks-requests",
    setup: "Add a webhook under Webhooks, and copy its signing secret.",
    endpoint: svix,
  },
  openai: {
    sender: "OpenAI",
    source: "https://platform.openai.com/docs/guides/webhooks",
    setup: "Create an endpoint under Webhooks in the project's settings, and copy its secret.",
    endpoint: { ...webhook, signature: v1("webhook", "text-or-whsec") },
  },
} as const satisfies Readonly<Record<string, Preset>>;
