import { createSign } from "node:crypto";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { usePublished } from "../../../fixtures/published.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { type Issued, issue } from "../../../support/certificates.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { needs } from "../../../support/needs.ts";

const WEBHOOK_ID = "9XL90610J3647323C";
const NAME = "messageverificationcerts.paypal.com";
const CERTS = "https://api.paypal.com/v1/notifications/certs";
const CERT_URL = `${CERTS}/CERT-360caa42-fca2a594-a5cafa77`;
const BODY =
  '{"id":"WH-9UG43882HX7271132","event_type":"PAYMENT.SALE.COMPLETED","resource":{"amount":"21.00"}}';
const DAY = 86_400_000;

/** Computes the CRC-32 of ISO 3309, bit by bit. */
function crc32(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

describe("PayPal", needs("openssl"), () => {
  const webhooks = useWebhooks();
  const published = usePublished();
  let gateway: TestWebhooks;
  let now = Date.now();
  let between: Issued;
  let signer: Issued;
  let deliveries = 0;

  beforeAll(async () => {
    const root = issue("A root", { isCa: true });
    between = issue("Between", { by: root, isCa: true });
    signer = issue(NAME, { by: between });
    const endpoint = { preset: "paypal", job_id: 1, webhook_id: WEBHOOK_ID };
    gateway = await webhooks.start({
      endpoints: [
        { path: "/paypal", ...endpoint },
        { path: "/sandbox", ...endpoint, sandbox: true },
        { path: "/kept", ...endpoint, keep_rejected_bodies: true },
      ],
      webhooks: { refusals_per_minute: 10_000 },
      clock: () => now,
      getText: published.getText,
      rootCertificates: [root.cert],
    });
  });

  beforeEach(() => {
    now += 61_000; // a certificate may be fetched again
    published.at.set(CERT_URL, { text: signer.cert + between.cert });
    gateway.log.events.length = 0;
  });

  type Headers = Record<string, string | undefined>;
  type Options = {
    key?: string;
    webhookId?: string;
    body?: string;
    headers?: Headers;
  };

  /** Returns the headers of a delivery, signed as PayPal documents. */
  function signed({
    key = signer.key,
    webhookId = WEBHOOK_ID,
    body = BODY,
    headers = {},
  }: Options = {}): Headers {
    deliveries += 1;
    const all: Headers = {
      "Content-Type": "application/json",
      "PAYPAL-TRANSMISSION-ID": `d938e770-8046-11e6-8103-${deliveries}`,
      "PAYPAL-TRANSMISSION-TIME": `${new Date(now).toISOString().slice(0, 19)}Z`,
      "PAYPAL-CERT-URL": CERT_URL,
      "PAYPAL-AUTH-ALGO": "SHA256withRSA",
      ...headers,
    };
    const text = `${all["PAYPAL-TRANSMISSION-ID"]}|${all["PAYPAL-TRANSMISSION-TIME"]}|${webhookId}|${crc32(Buffer.from(body))}`;
    return { "PAYPAL-TRANSMISSION-SIG": createSign("RSA-SHA256").update(text).sign(key, "base64"), ...all };
  }

  function post(headers: Headers, { path = "/paypal", body = BODY } = {}) {
    const sent = Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    );
    return send(gateway.address, { path, headers: Object.fromEntries(sent), body });
  }
  const lastReason = () => gateway.log.events.at(-1)?.fields?.["reason"];

  test("a delivery becomes a call under its transmission id, and a repeat with another body is the same call", async () => {
    const headers = signed();
    const answer = await post(headers);
    expect([answer.status, lastReason()]).toEqual([200, undefined]);
    const { metadata } = await webhooks.onlyCall();
    expect(metadata["X-WEBHOOK-DELIVERY-ID"]).toBe(headers["PAYPAL-TRANSMISSION-ID"]);
    expect(metadata["X-WEBHOOK-EVENT"]).toBe("PAYMENT.SALE.COMPLETED");
    // Four appended bytes give any body the signed CRC-32.
    const forged = Buffer.concat([
      Buffer.from(BODY.replace("21.00", "99.99")),
      bytesFor(BODY, BODY.replace("21.00", "99.99")),
    ]);
    expect(crc32(forged)).toBe(crc32(Buffer.from(BODY)));
    for (const body of [Buffer.from(BODY), forged]) {
      const again = await send(gateway.address, {
        path: "/paypal",
        headers: headers as Record<string, string>,
        body,
      });
      expect([again.status, again.headers["idempotent-replayed"]]).toEqual([200, "true"]);
    }
    await webhooks.onlyCall();
  });

  test("an endpoint that keeps refused bodies also accepts a delivery, and the certificate is fetched once", async () => {
    for (let i = 0; i < 2; i++) expect((await post(signed(), { path: "/kept" })).status).toBe(200);
    expect(published.asked).toEqual([CERT_URL]);
  });

  const refused: [string, () => Headers, string][] = [
    ["it is of another webhook", () => signed({ webhookId: "8PT597110X687430L" }), "mismatch"],
    ["its body was changed", () => signed({ body: `${BODY} ` }), "mismatch"],
    ["its id was changed", () => ({ ...signed(), "PAYPAL-TRANSMISSION-ID": "another" }), "mismatch"],
    [
      "its time was changed",
      () => ({ ...signed(), "PAYPAL-TRANSMISSION-TIME": new Date(now).toISOString() }),
      "mismatch",
    ],
    ["another key signed it", () => signed({ key: between.key }), "mismatch"],
    ["its algorithm is SHA-1", () => signed({ headers: { "PAYPAL-AUTH-ALGO": "SHA1withRSA" } }), "malformed"],
    [
      "it is older than four days",
      () => signed({ headers: { "PAYPAL-TRANSMISSION-TIME": new Date(now - 4 * DAY - 1000).toISOString() } }),
      "stale",
    ],
    [
      "it is from the future",
      () => signed({ headers: { "PAYPAL-TRANSMISSION-TIME": new Date(now + 302_000).toISOString() } }),
      "early",
    ],
    [
      "its signature is not base64",
      () => ({ ...signed(), "PAYPAL-TRANSMISSION-SIG": "no signature" }),
      "malformed",
    ],
    ...["ID", "TIME", "SIG"].map((name): [string, () => Headers, string] => [
      `it has no PAYPAL-TRANSMISSION-${name}`,
      () => ({ ...signed(), [`PAYPAL-TRANSMISSION-${name}`]: undefined }),
      "missing",
    ]),
    ["it has no PAYPAL-CERT-URL", () => ({ ...signed(), "PAYPAL-CERT-URL": undefined }), "missing"],
    ["it has no PAYPAL-AUTH-ALGO", () => ({ ...signed(), "PAYPAL-AUTH-ALGO": undefined }), "missing"],
  ];
  test.each(sample(refused, 9))("is refused if %s", async (_, make, reason) => {
    for (const path of ["/paypal", "/kept"]) {
      expect((await post(make(), { path })).status).toBe(401);
      expect(lastReason()).toMatch(new RegExp(`^${reason}`));
    }
    expect(await webhooks.waiting()).toEqual([]);
  });

  const foreignUrls: [string, string][] = [
    ["another host", CERT_URL.replace("api.paypal.com", "attacker.example")],
    ["a host that only begins like it", CERT_URL.replace("paypal.com", "paypal.com.attacker.example")],
    ["the sandbox", CERT_URL.replace("api.", "api.sandbox.")],
    ["http", CERT_URL.replace("https", "http")],
    ["a user", CERT_URL.replace("https://", "https://api.paypal.com@attacker.example/")],
    ["a port", CERT_URL.replace(".com/", ".com:8443/")],
    ["another path", "https://api.paypal.com/v1/notifications/webhooks"],
    ["a path that goes up", `${CERTS}/CERT-1/../../x`],
    ["a query", `${CERT_URL}?a=b`],
  ];
  test.each(sample(foreignUrls, 3))(
    "a PAYPAL-CERT-URL with %s is refused, and nothing is fetched",
    async (_, url) => {
      published.at.set(url, { text: signer.cert + between.cert });
      expect((await post(signed({ headers: { "PAYPAL-CERT-URL": url } }))).status).toBe(401);
      expect(published.asked).toEqual([]);
    },
  );

  test("a certificate is refused once it has expired", async () => {
    now += 31 * DAY;
    expect([(await post(signed())).status, lastReason()]).toEqual([
      503,
      "the signing certificate is not valid now",
    ]);
    now -= 31 * DAY;
  });

  test("if the certificate cannot be fetched, the answer makes the sender retry", async () => {
    const answer = await post(signed({ headers: { "PAYPAL-CERT-URL": `${CERTS}/CERT-none` } }));
    expect([answer.status, answer.json()["code"]]).toEqual([503, "webhook.keys_unavailable"]);
  });

  onlyInLongRun(() => {
    let urls = 0;
    async function refusalUnder({ cert, key }: Issued) {
      urls += 1;
      const url = `${CERTS}/CERT-${urls}`;
      published.at.set(url, { text: cert });
      const { status } = await post(signed({ key, headers: { "PAYPAL-CERT-URL": url } }));
      return [status, lastReason()];
    }

    test("a certificate is refused if it is self-signed, has no issuers, or is for another name", async () => {
      const noChain = "the signing certificate has no chain that leads to a root";
      expect(await refusalUnder(issue(NAME))).toEqual([503, noChain]);
      now += 61_000;
      expect(await refusalUnder(signer)).toEqual([503, noChain]);
      now += 61_000;
      const other = issue("www.paypal.com", { by: between });
      expect(await refusalUnder({ cert: other.cert + between.cert, key: other.key })).toEqual([
        503,
        `the signing certificate is not for ${NAME}`,
      ]);
    });

    test("an endpoint for the sandbox accepts only the certificates of the sandbox", async () => {
      const own = issue("messageverificationcerts.sandbox.paypal.com", { by: between });
      const url = CERT_URL.replace("api.", "api.sandbox.");
      published.at.set(url, { text: own.cert + between.cert });
      const headers = { "PAYPAL-CERT-URL": url };
      expect((await post(signed({ key: own.key, headers }), { path: "/sandbox" })).status).toBe(200);
      expect((await post(signed(), { path: "/sandbox" })).status).toBe(401);
      expect((await post(signed({ key: own.key, headers }))).status).toBe(401);
    });
  });
});

/** Returns the four bytes that give `text` the CRC-32 of `wanted` when they are appended. */
function bytesFor(wanted: string, text: string): Buffer {
  // The CRC is linear, so the effect of each of the 32 bits can be solved for.
  const base = Buffer.concat([Buffer.from(text), Buffer.alloc(4)]);
  const zero = crc32(base);
  const rows = Array.from({ length: 32 }, (_, bit) => {
    const bytes = Buffer.from(base);
    const at = base.length - 4 + (bit >> 3);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7));
    return { effect: (crc32(bytes) ^ zero) >>> 0, bits: 2 ** bit };
  });
  let left = (crc32(Buffer.from(wanted)) ^ zero) >>> 0;
  let solution = 0;
  for (let bit = 31; bit >= 0; bit--) {
    const mask = 2 ** bit;
    const has = (value: number) => Math.floor(value / mask) % 2 === 1;
    const at = rows.findIndex(({ effect }) => has(effect));
    const [pivot] = rows.splice(at, 1);
    if (pivot === undefined) throw new Error("the CRC does not depend on this bit");
    for (const row of rows.filter(({ effect }) => has(effect))) {
      row.effect = (row.effect ^ pivot.effect) >>> 0;
      row.bits = (row.bits ^ pivot.bits) >>> 0;
    }
    if (has(left)) {
      left = (left ^ pivot.effect) >>> 0;
      solution = (solution ^ pivot.bits) >>> 0;
    }
  }
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(solution);
  return bytes;
}
