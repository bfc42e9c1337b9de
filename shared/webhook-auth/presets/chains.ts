import type { Preset } from "../sender-description.ts";

/** Senders of alerts about blockchains. */
export const chains = {
  alchemy: {
    sender: "Alchemy",
    source: "https://www.alchemy.com/docs/reference/notify-api-quickstart",
    setup: "Dashboard > Webhooks. `secret` is the signing key of this webhook (`whsec_…`).",
    endpoint: {
      auth: "signature",
      signature: { header: "X-Alchemy-Signature", algorithm: "hmac-sha256" },
      delivery_id: "{body:/id}",
      event_type: "{body:/type}",
      answer: { status: 200 },
    },
  },
  quicknode: {
    sender: "QuickNode (Streams, Webhooks)",
    source:
      "https://www.quicknode.com/guides/quicknode-products/streams/validating-incoming-streams-webhook-messages",
    setup: "The stream > Settings. `secret` is the security token. A ping without a signature is refused.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-QN-Signature",
        algorithm: "hmac-sha256",
        signed: "{header:X-QN-Nonce}{timestamp}{body}",
        timestamp: { header: "X-QN-Timestamp", unit: "s", past_secs: 300, future_secs: 300 },
      },
      delivery_id: "{header:X-QN-Nonce}",
      // The signature covers the text before compression.
      encoded_bodies: "decode",
      signature_over: "decoded",
      forward_headers: [
        "Stream-Id",
        "Stream-Network",
        "Stream-Dataset",
        "Batch-Start-Range",
        "Batch-End-Range",
      ],
      answer: { status: 200 },
    },
  },
  helius: {
    sender: "Helius",
    source: "https://www.helius.dev/docs/webhooks",
    setup: "Dashboard > Webhooks: set your own authentication header. `secret` is its whole value.",
    endpoint: {
      auth: "api-key",
      api_key_header: "Authorization",
      event_type: "{body:/0/type}",
      answer: { status: 200 },
    },
  },
  tenderly: {
    sender: "Tenderly",
    source: "https://docs.tenderly.co/alerts/configuring-alert-destinations/configuring-alert-destinations",
    setup:
      "Alerts > Destinations > Webhook. `secret` is the signing key. A test before the webhook exists is signed with an empty key, and refused.",
    open: ["A proxy that rewrites the header `Date` breaks the signature."],
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-Tenderly-Signature",
        algorithm: "hmac-sha256",
        signed: "{body}{timestamp}",
        timestamp: { header: "Date", unit: "go" },
      },
      delivery_id: "{body:/id}",
      event_type: "{body:/event_type}",
      handshakes: [{ method: "GET", proof: "none" }],
      answer: { status: 200 },
    },
  },
  moralis: {
    sender: "Moralis Streams",
    source: "https://docs.moralis.com/streams/webhooks/webhook-security",
    setup: "Create the stream with the URL. `secret` is the streams secret under Settings.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "x-signature",
        encoding: "0x-hex",
        algorithm: "keccak-256",
        signed: "{body}{secret}",
      },
      // The id must not depend on the whole body, which contains a retry counter. Each block is sent twice: unconfirmed
      // and confirmed.
      delivery_id: "{body:/streamId}:{body:/block/hash}:{body:/confirmed}:{body:/tag}",
      handshakes: [{ when: { "{body:/chainId}": "", "{body:/streamId}": "" }, proof: "credential" }],
      answer: { status: 200 },
    },
  },
  "coinbase-cdp": {
    sender: "Coinbase Developer Platform",
    source: "https://docs.cdp.coinbase.com/webhooks/verify-signatures",
    setup:
      "Create the subscription through the API with the URL. `secret` is `metadata.secret` of the answer.",
    open: [
      "`h` lists the signed headers. If `X-Event-Id` is one of them, a replay under another id is refused.",
    ],
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-Hook0-Signature",
        // The sender's header has two signatures, v0 and v1. Only v1 is accepted, because v0 covers no headers.
        list: { separator: ",", key: "v1" },
        algorithm: "hmac-sha256",
        signed: "{timestamp}.{pair:h}.{named-headers:h}.{body}",
        timestamp: { pair: "t", unit: "s", past_secs: 300, future_secs: 300 },
      },
      delivery_id: "{header:X-Event-Id}",
      event_type: "{body:/eventType}",
      forward_headers: ["X-Event-Id", "X-Event-Type"],
      answer: { status: 200 },
    },
  },
} as const satisfies Readonly<Record<string, Preset>>;
