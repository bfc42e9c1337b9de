import { createHmac, randomBytes, randomUUID } from "node:crypto";

/*
 * What senders send, and how they sign it, written by their documentation: nothing here is shared with the checks that the
 * gateway makes.
 */

/** An event as its sender delivers it. */
export type Delivery = {
  preset: string;
  /** The sender's name of the event. */
  eventType: string;
  /** An answer that the sender takes for a success. */
  success: 200 | 202;
  body: string;
  /** The sender's own headers, of an attempt at this time. */
  headers(secret: string, atSecs: number): Readonly<Record<string, string>>;
};

/** https://docs.stripe.com/webhooks/signature. The key is the whole secret, with its prefix. */
export function stripe(): Delivery {
  const eventType = "charge.succeeded";
  const charge = { id: `ch_${newId()}`, object: "charge", amount: 1999, currency: "eur", paid: true };
  const event = { id: `evt_${newId()}`, object: "event", type: eventType, data: { object: charge } };
  const body = JSON.stringify(event, undefined, 2);
  return {
    preset: "stripe",
    eventType,
    success: 200,
    body,
    headers: (secret, atSecs) => ({
      "Stripe-Signature": `t=${atSecs},v1=${hmac("sha256", secret, `${atSecs}.${body}`, "hex")}`,
    }),
  };
}

/** https://docs.slack.dev/authentication/verifying-requests-from-slack */
export function slack(): Delivery {
  const event = {
    type: "app_mention",
    user: "U061F7AUR",
    text: "<@U0LAN0Z89> deploy",
    channel: "C123ABC456",
  };
  return slackDelivery("app_mention", {
    token: "XXYYZZ",
    team_id: "T123ABC456",
    type: "event_callback",
    event_id: `Ev${newId()}`,
    event,
  });
}

/** https://docs.slack.dev/reference/events/url_verification: Slack asks this before it takes a URL. */
export function slackSetUp(challenge: string): Delivery {
  return slackDelivery("url_verification", { token: "XXYYZZ", challenge, type: "url_verification" });
}

function slackDelivery(eventType: string, payload: object): Delivery {
  const body = JSON.stringify(payload);
  return {
    preset: "slack",
    eventType,
    success: 200,
    body,
    headers: (secret, atSecs) => ({
      "X-Slack-Request-Timestamp": String(atSecs),
      "X-Slack-Signature": `v0=${hmac("sha256", secret, `v0:${atSecs}:${body}`, "hex")}`,
    }),
  };
}

/**
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md. The key is the base64 behind the
 * secret's prefix.
 */
export function standardWebhook(): Delivery {
  const id = `msg_${newId()}`;
  const eventType = "contact.created";
  const data = { id: newId(), email: "a@example.com" };
  const body = JSON.stringify({ type: eventType, timestamp: "2026-11-03T20:26:10.344522Z", data });
  return {
    preset: "standard-webhooks",
    eventType,
    success: 202,
    body,
    headers: (secret, atSecs) => {
      const key = Buffer.from(secret.slice("whsec_".length), "base64");
      return {
        "webhook-id": id,
        "webhook-timestamp": String(atSecs),
        "webhook-signature": `v1,${hmac("sha256", key, `${id}.${atSecs}.${body}`, "base64")}`,
      };
    },
  };
}

/** https://www.alchemy.com/docs/reference/notify-api-quickstart. Any answer but 200 is a failure there. */
export function alchemy(): Delivery {
  const eventType = "ADDRESS_ACTIVITY";
  const activity = [
    {
      blockNum: "0xdf34a3",
      hash: `0x${newId().repeat(2)}`,
      fromAddress: "0x503828976d22510aad0201ac7ec88293211d23da",
      toAddress: "0xbe3f4b43db5eb49d1f48f53443b9abce45da3b79",
      value: 293.092129,
      asset: "USDC",
    },
  ];
  const body = JSON.stringify({
    webhookId: `wh_${newId().slice(0, 16)}`,
    id: `whevt_${newId().slice(0, 16)}`,
    createdAt: "2026-11-03T20:26:10.344Z",
    type: eventType,
    event: { network: "ETH_MAINNET", activity },
  });
  return {
    preset: "alchemy",
    eventType,
    success: 200,
    body,
    headers: (secret) => ({ "X-Alchemy-Signature": hmac("sha256", secret, body, "hex") }),
  };
}

/** https://docs.github.com/en/webhooks/webhook-events-and-payloads. GitHub sends the older signature too. */
export function github(eventType: string, payload: object): Delivery {
  const body = JSON.stringify(payload);
  return {
    preset: "github",
    eventType,
    success: 202,
    body,
    headers: (secret) => ({
      "X-GitHub-Event": eventType,
      "X-GitHub-Delivery": randomUUID(),
      "X-GitHub-Hook-ID": "292430182",
      "X-Hub-Signature": `sha1=${hmac("sha1", secret, body, "hex")}`,
      "X-Hub-Signature-256": `sha256=${hmac("sha256", secret, body, "hex")}`,
    }),
  };
}

function hmac(
  hash: "sha1" | "sha256",
  key: string | Buffer,
  text: string,
  encoding: "hex" | "base64",
): string {
  return createHmac(hash, key).update(text).digest(encoding);
}

/** New in every run, because the Redis of REDIS_URL remembers the deliveries of earlier ones. */
function newId(): string {
  return randomBytes(16).toString("hex");
}
