import type { Preset } from "../sender-description.ts";
import type { Scheme } from "../signature-scheme.ts";

/** Returns the scheme that Stripe introduced: `t=<s>,v1=<hex>` over the time, a dot and the body. */
export function stripeLike(header: string, past_secs: number): Scheme {
  return {
    header,
    list: { separator: ",", key: "v1" },
    algorithm: "hmac-sha256",
    signed: "{timestamp}.{body}",
    timestamp: { pair: "t", unit: "s", past_secs, future_secs: past_secs },
  };
}

/** Senders for payments and shops. */
export const commerce = {
  stripe: {
    sender: "Stripe",
    source: "https://docs.stripe.com/webhooks/signature",
    setup: "Workbench > Webhooks > Add destination. `secret` is the signing secret (`whsec_…`).",
    endpoint: {
      auth: "signature",
      // The signature v0 is not read. Only test events have it, and its scheme proves nothing.
      signature: stripeLike("Stripe-Signature", 300),
      delivery_id: "{body:/id}",
      event_type: "{body:/type}",
      answer: { status: 200 },
    },
  },
  paypal: {
    sender: "PayPal",
    source: "https://developer.paypal.com/api/rest/webhooks/rest/",
    setup:
      "Apps & Credentials > the app > Webhooks. `webhook_id` is the id that PayPal then shows. For the sandbox, set `sandbox = true`.",
    endpoint: {
      auth: "paypal",
      delivery_id: "{header:PayPal-Transmission-Id}",
      event_type: "{body:/event_type}",
      answer: { status: 200 },
    },
  },
  shopify: {
    sender: "Shopify",
    source: "https://shopify.dev/docs/apps/build/webhooks/subscribe/https",
    setup:
      "Subscribe to topics in the app's configuration or through its API. `secret` is the app's client secret.",
    endpoint: {
      auth: "signature",
      signature: {
        header: ["Shopify-Hmac-Sha256", "X-Shopify-Hmac-Sha256"],
        encoding: "base64",
        algorithm: "hmac-sha256",
      },
      // Shopify delivers an event once for each subscription to its topic. The event's id is the same in these
      // deliveries, so that only the first one makes a call.
      delivery_id:
        "{header:Shopify-Topic|X-Shopify-Topic}:{header:Shopify-Event-Id|X-Shopify-Event-Id|Shopify-Webhook-Id|X-Shopify-Webhook-Id}",
      event_type: "{header:Shopify-Topic|X-Shopify-Topic}",
      forward_headers: [
        ...["X-Shopify-Topic", "X-Shopify-Shop-Domain", "X-Shopify-API-Version", "X-Shopify-Event-Id"],
        ...["X-Shopify-Triggered-At", "X-Shopify-Webhook-Id"],
        ...["Shopify-Topic", "Shopify-Shop-Domain", "Shopify-API-Version", "Shopify-Event-Id"],
      ],
      answer: { status: 200 },
    },
  },
  paddle: {
    sender: "Paddle Billing",
    source: "https://developer.paddle.com/webhooks/about/signature-verification",
    setup: "Developer tools > Notifications > New destination. `secret` is the secret key (`pdl_ntfset_…`).",
    endpoint: {
      auth: "signature",
      signature: {
        header: "Paddle-Signature",
        list: { separator: ";", key: "h1" },
        algorithm: "hmac-sha256",
        signed: "{timestamp}:{body}",
        // Paddle's libraries allow 5 s, but two clocks may differ by more. The limit need not cover the time of
        // retries, because each attempt has a new time.
        timestamp: { pair: "ts", unit: "s", past_secs: 60, future_secs: 60 },
      },
      delivery_id: "{body:/event_id}",
      event_type: "{body:/event_type}",
      answer: { status: 200 },
    },
  },
  razorpay: {
    sender: "Razorpay",
    source: "https://razorpay.com/docs/webhooks/validate-test/",
    setup:
      "Account & Settings > Webhooks > Add: set your own secret. After a change, keep the old secret for a day: retries are signed with it.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-Razorpay-Signature", algorithm: "hmac-sha256" },
      delivery_id: "{header:X-Razorpay-Event-Id}",
      event_type: "{body:/event}",
      forward_headers: ["X-Razorpay-Event-Id"],
      answer: { status: 200 },
    },
  },
  square: {
    sender: "Square",
    source: "https://developer.squareup.com/docs/webhooks/step3validate",
    setup: "Developer console > Webhooks > Subscriptions. `secret` is the signature key.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "x-square-hmacsha256-signature",
        encoding: "base64",
        algorithm: "hmac-sha256",
        signed: "{url}{body}",
      },
      delivery_id: "{body:/event_id}",
      event_type: "{body:/type}",
      forward_headers: ["square-environment", "square-retry-number", "square-retry-reason"],
      answer: { status: 200 },
    },
  },
  "coinbase-commerce": {
    sender: "Coinbase Commerce",
    source: "https://docs.cdp.coinbase.com/commerce/docs/webhooks-security",
    setup: "Add a webhook. `secret` is the webhook shared secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-CC-Webhook-Signature", algorithm: "hmac-sha256" },
      delivery_id: "{body:/event/id}",
      event_type: "{body:/event/type}",
      answer: { status: 200 },
    },
  },
  woocommerce: {
    sender: "WooCommerce",
    source: "https://developer.woocommerce.com/docs/webhooks/",
    setup: "Settings > Advanced > Webhooks: set your own secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-WC-Webhook-Signature", encoding: "base64", algorithm: "hmac-sha256" },
      delivery_id: "{header:X-WC-Webhook-Delivery-ID}",
      event_type: "{header:X-WC-Webhook-Topic}",
      forward_headers: [
        "X-WC-Webhook-Topic",
        "X-WC-Webhook-Resource",
        "X-WC-Webhook-Event",
        "X-WC-Webhook-Source",
      ],
      // When the webhook is saved, WooCommerce sends a ping: a form without a signature.
      handshakes: [
        { when: { "{header:Content-Type}": "application/x-www-form-urlencoded*" }, proof: "none" },
      ],
      answer: { status: 200 },
    },
  },
  "lemon-squeezy": {
    sender: "Lemon Squeezy",
    source: "https://docs.lemonsqueezy.com/help/webhooks/signing-requests",
    setup: "Settings > Webhooks: set your own signing secret.",
    endpoint: {
      auth: "signature",
      signature: { header: "X-Signature", algorithm: "hmac-sha256" },
      event_type: "{body:/meta/event_name}",
      forward_headers: ["X-Event-Name"],
      answer: { status: 200 },
    },
  },
  recurly: {
    sender: "Recurly (JSON webhooks; XML is not signed)",
    source: "https://docs.recurly.com/recurly-subscriptions/docs/signature-verification",
    setup:
      "Integrations > Webhooks: set the payload format JSON. `secret` is the secret key of this endpoint.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "recurly-signature",
        list: { separator: ",", first: "time" },
        algorithm: "hmac-sha256",
        signed: "{timestamp}.{body}",
        timestamp: { pair: "time", unit: "ms", past_secs: 300, future_secs: 300 },
      },
      // The id in the body is that of the account or invoice, not of the event.
      delivery_id: "{header:recurly-notification-id}",
      event_type: "{body:/object_type}.{body:/event_type}",
    },
  },
  "adyen-platforms": {
    sender: "Adyen for Platforms, Issuing and Management",
    source: "https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures",
    setup:
      "Developers > Webhooks > the webhook > Security: generate an HMAC key (64 hex digits). Standard webhooks of payments are signed in [another way](#senders-that-have-no-preset).",
    open: ["Adyen sends no id of a delivery, so the runner must compare the fields of `data`."],
    endpoint: {
      auth: "signature",
      signature: {
        header: "hmacsignature",
        encoding: "base64",
        algorithm: "hmac-sha256",
        secret_format: "hex",
      },
      event_type: "{body:/type}",
      answer: { status: 200, body: "[accepted]" },
    },
  },
  "checkout-com": {
    sender: "Checkout.com",
    source: "https://www.checkout.com/docs/developer-resources/event-notifications/receive-webhooks",
    setup: "Create a webhook. `secret` is its signature key.",
    endpoint: {
      auth: "signature",
      signature: { header: "Cko-Signature", algorithm: "hmac-sha256" },
      delivery_id: "{body:/id}",
      event_type: "{body:/type}",
      answer: { status: 200 },
    },
  },
  gocardless: {
    sender: "GoCardless",
    source: "https://developer.gocardless.com/api-reference/#appendix-webhooks",
    setup: "Developers > Webhook endpoints.",
    endpoint: {
      auth: "signature",
      signature: { header: "Webhook-Signature", algorithm: "hmac-sha256" },
      // A delivery is a batch of events. GoCardless repeats it under the same id.
      delivery_id: "{body:/meta/webhook_id}",
      answer: { status: 200 },
    },
  },
  paystack: {
    sender: "Paystack",
    source: "https://paystack.com/docs/payments/webhooks/",
    setup: "Settings > API Keys & Webhooks. `secret` is the secret API key.",
    endpoint: {
      auth: "signature",
      signature: { header: "x-paystack-signature", algorithm: "hmac-sha512" },
      event_type: "{body:/event}",
      answer: { status: 200 },
    },
  },
  "authorize-net": {
    sender: "Authorize.Net",
    source: "https://developer.authorize.net/api/reference/features/webhooks.html",
    setup: "Account > Settings > Webhooks. `secret` is the account's signature key, all 128 characters.",
    endpoint: {
      auth: "signature",
      signature: {
        header: "X-ANET-Signature",
        prefix: "sha512=",
        encoding: "hex-upper",
        algorithm: "hmac-sha512",
      },
      delivery_id: "{body:/notificationId}",
      event_type: "{body:/eventType}",
      answer: { status: 200 },
    },
  },
  quickbooks: {
    sender: "QuickBooks (Intuit)",
    source: "https://developer.intuit.com/app/developer/qbo/docs/develop/webhooks",
    setup: "The app's page > Webhooks. `secret` is the verifier token.",
    endpoint: {
      auth: "signature",
      signature: { header: "intuit-signature", encoding: "base64", algorithm: "hmac-sha256" },
      forward_headers: ["intuit-created-time", "intuit-notification-schema-version"],
      answer: { status: 200 },
    },
  },
  xero: {
    sender: "Xero",
    source: "https://developer.xero.com/documentation/guides/webhooks/configuring-your-server/",
    setup: "The app's page > Webhooks. `secret` is the webhooks key.",
    endpoint: {
      auth: "signature",
      signature: { header: "x-xero-signature", encoding: "base64", algorithm: "hmac-sha256" },
      answer: { status: 200, body: "", refusals_limited: 401 },
    },
  },
} as const satisfies Readonly<Record<string, Preset>>;
