import { createSign } from "node:crypto";
import { createServer, globalAgent } from "node:https";
import type { AddressInfo } from "node:net";
import MessageValidator from "sns-validator";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createRejectedList } from "../../../../shared/telemetry/rejected/list.ts";
import { usePublished } from "../../../fixtures/published.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { type Issued, issue } from "../../../support/certificates.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { needs } from "../../../support/needs.ts";
import { TEST_TLS } from "../../../support/tls.ts";

const TOPIC = "arn:aws:sns:us-east-1:123456789012:orders";
const HOST = "https://sns.us-east-1.amazonaws.com";
const CERT_URL = `${HOST}/SimpleNotificationService-01d088a6f77103d0fe307c0069e40ed6.pem`;
const TOKEN = "2336412f37fb687f5d51e6e241d09c805a5a57b30d712f794cc5f6a988666d92";
const DAY = 86_400_000;

type Message = Record<string, unknown>;

let now = Date.now();
let signer: Issued;

/** Signed members in their order, from Amazon's documentation. */
const NOTIFICATION = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"];
const CONFIRMATION = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];

/** Signs a message as Amazon SNS documents. */
function signed(message: Message, key = signer.key): Message {
  const sign = createSign(message["SignatureVersion"] === "1" ? "RSA-SHA1" : "RSA-SHA256");
  const names = message["Type"] === "Notification" ? NOTIFICATION : CONFIRMATION;
  for (const name of names) if (name in message) sign.update(`${name}\n${String(message[name])}\n`);
  return { ...message, Signature: sign.sign(key, "base64") };
}

let messages = 0;
function notification(changes: Message = {}): Message {
  messages += 1;
  return {
    Type: "Notification",
    MessageId: `22b80b92-fdea-4c2c-8f9d-${messages}`,
    TopicArn: TOPIC,
    Subject: "My First Message",
    Message: 'Hello\nworld! \u00e9 {}"',
    Timestamp: new Date(now).toISOString(),
    SignatureVersion: "2",
    SigningCertURL: CERT_URL,
    UnsubscribeURL: `${HOST}/?Action=Unsubscribe&SubscriptionArn=${TOPIC}:c9135db0-26c4-47ec-8998-413945fb5a96`,
    MessageAttributes: { kind: { Type: "String", Value: "a:b" } },
    ...changes,
  };
}

function confirmation(changes: Message = {}): Message {
  const { Subject: _, MessageAttributes: __, UnsubscribeURL: ___, ...rest } = notification();
  return {
    ...rest,
    Type: "SubscriptionConfirmation",
    Token: TOKEN,
    Message: `You have chosen to subscribe to the topic ${TOPIC}.`,
    SubscribeURL: `${HOST}/?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=${TOKEN}`,
    ...changes,
  };
}

describe("Amazon SNS", needs("openssl"), () => {
  const webhooks = useWebhooks();
  const published = usePublished();
  let gateway: TestWebhooks;
  let root: Issued;
  let stranger: Issued;

  beforeAll(async () => {
    root = issue("A root", { isCa: true });
    signer = issue("sns.amazonaws.com", { by: root });
    stranger = issue("sns.amazonaws.com");
    const endpoint = { preset: "aws-sns", job_id: 1, topics: [TOPIC] };
    gateway = await webhooks.start({
      endpoints: [
        { path: "/sns", ...endpoint },
        { path: "/china", ...endpoint, topics: ["arn:aws-cn:sns:cn-north-1:123456789012:orders"] },
      ],
      webhooks: { refusals_per_minute: 10_000 },
      clock: () => now,
      getText: published.getText,
      rootCertificates: [root.cert],
    });
  });

  beforeEach(() => {
    now += 61_000; // a certificate may be fetched again
    published.at.set(CERT_URL, { text: signer.cert });
    gateway.log.events.length = 0;
  });

  const post = (body: Message | string, headers: Record<string, string> = {}, path = "/sns") =>
    send(gateway.address, {
      path,
      headers: { "Content-Type": "text/plain; charset=UTF-8", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  const lastReason = () => gateway.log.events.at(-1)?.fields?.["reason"];

  test.each(["1", "2"])(
    "a notification with signature version %s becomes a call under its MessageId",
    async (version) => {
      const message = signed(notification({ SignatureVersion: version }));
      const answer = await post(message);
      expect([answer.status, lastReason()]).toEqual([200, undefined]);
      const call = await webhooks.onlyCall();
      expect(call.metadata["X-WEBHOOK-DELIVERY-ID"]).toBe(message["MessageId"]);
      expect(JSON.parse(Buffer.from(call.body, "base64").toString())).toEqual(message);

      const repeat = await post({ ...message, MessageAttributes: {} });
      expect([repeat.status, repeat.headers["idempotent-replayed"]]).toEqual([200, "true"]);
      await webhooks.onlyCall();
    },
  );

  test("a notification without Subject is accepted, and all notifications share one fetch of the certificate", async () => {
    const { Subject: _, ...message } = notification();
    const answers = await Promise.all([
      post(signed(message)),
      post(signed(notification())),
      post(signed(notification())),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(published.asked.length).toBeLessThanOrEqual(1);
  });

  const refused: [string, () => Message | string][] = [
    ["Message was changed", () => ({ ...signed(notification()), Message: "Hello" })],
    ["Subject was changed", () => ({ ...signed(notification()), Subject: "Hello" })],
    ["Subject was removed", () => ({ ...signed(notification()), Subject: undefined })],
    ["Subject was added", () => ({ ...signed(notification({ Subject: undefined })), Subject: "Hello" })],
    [
      "Timestamp was changed",
      () => ({ ...signed(notification()), Timestamp: new Date(now - 1000).toISOString() }),
    ],
    ["MessageId was changed", () => ({ ...signed(notification()), MessageId: "another" })],
    ["Type was changed", () => ({ ...signed(notification()), Type: "SubscriptionConfirmation" })],
    ["another key signed it", () => signed(notification(), stranger.key)],
    ["its hash is that of the other version", () => ({ ...signed(notification()), SignatureVersion: "1" })],
    ["its signature version is 3", () => ({ ...signed(notification()), SignatureVersion: "3" })],
    ["its signature is not base64", () => ({ ...signed(notification()), Signature: "no signature" })],
    ["it has no signature", () => notification()],
    ["it has no Type", () => signed(notification({ Type: undefined }))],
    ["its Type is unknown", () => signed(notification({ Type: "toString" }))],
    ["its topic is not listed", () => signed(notification({ TopicArn: `${TOPIC}2` }))],
    [
      "its topic is one of another account",
      () => signed(notification({ TopicArn: TOPIC.replace("1234", "9999") })),
    ],
    ["it is a day old", () => signed(notification({ Timestamp: new Date(now - DAY - 1000).toISOString() }))],
    [
      "it is from the future",
      () => signed(notification({ Timestamp: new Date(now + 301_000).toISOString() })),
    ],
    ["a member is repeated", () => `{"Message":"evil",${JSON.stringify(signed(notification())).slice(1)}`],
    [
      "an escaped member is repeated",
      () => `{"M\\u0065ssage":"evil",${JSON.stringify(signed(notification())).slice(1)}`,
    ],
    [
      "a member differs from a signed one only in its case",
      () => ({ ...signed(notification()), message: "evil" }),
    ],
    ["Amazon SNS does not send a member", () => ({ ...signed(notification()), Extra: "evil" })],
    ["Message is a number", () => ({ ...signed(notification({ Message: "5" })), Message: 5 })],
    [
      "a line of Message was moved to MessageId",
      () => {
        const Message = "Hello\nMessageId\nfake";
        const { MessageId, ...message } = signed(notification({ Message }));
        return { ...message, Message: "Hello", MessageId: `fake\nMessageId\n${String(MessageId)}` };
      },
    ],
    ["the body is a list", () => JSON.stringify([signed(notification())])],
    ["the body is not JSON", () => "Hello"],
    ["the body is nested too deep", () => `${"[".repeat(100)}${"]".repeat(100)}`],
  ];

  test.each(sample(refused, 9))("is refused if %s", async (_, make) => {
    expect((await post(signed(notification()))).status).toBe(200);
    await webhooks.redis.client.flushdb();
    const answer = await post(make());
    expect([answer.status, answer.json()["detail"]]).toEqual([401, expect.stringContaining("credential")]);
    expect(await webhooks.waiting()).toEqual([]);
  });

  const foreignUrls: [string, string][] = [
    ["another region", CERT_URL.replace("us-east-1", "eu-west-1")],
    [
      "a host that only begins like it",
      CERT_URL.replace("amazonaws.com", "evil.amazonaws.com.attacker.example"),
    ],
    ["a host below China's", CERT_URL.replace(".com/", ".com.cn/")],
    ["http", CERT_URL.replace("https", "http")],
    ["a user", CERT_URL.replace("https://", "https://sns.us-east-1.amazonaws.com@attacker.example:443#")],
    ["a password", CERT_URL.replace("https://", "https://a:b@")],
    ["a port", CERT_URL.replace(".com/", ".com:8443/")],
    ["the default port", CERT_URL.replace(".com/", ".com:443/")],
    ["a query", `${HOST}/?Action=Publish&x=/SimpleNotificationService-0.pem`],
    ["a query after it", `${CERT_URL}?.pem`],
    ["a path that goes up", `${HOST}/SimpleNotificationService-0/../0.pem`],
    ["an escaped path", `${HOST}/SimpleNotificationService-%2e%2e%2f0.pem`],
    ["a backslash", `${HOST}\\@attacker.example/SimpleNotificationService-0.pem`],
    ["a line break", `${CERT_URL}\n`],
    ["a link-local address", "https://169.254.169.254/SimpleNotificationService-0.pem"],
    ["capitals in the host", CERT_URL.replace("sns", "SNS")],
  ];
  test.each(sample(foreignUrls, 4))(
    "a SigningCertURL with %s is refused, and nothing is fetched",
    async (_, url) => {
      published.at.set(url, { text: signer.cert });
      expect((await post(signed(notification({ SigningCertURL: url })))).status).toBe(401);
      expect(published.asked).toEqual([]);
    },
  );

  test("messages that can be refused without the certificate cause no fetch", async () => {
    const unlisted = notification({ TopicArn: `${TOPIC}2` });
    for (const message of [
      unlisted,
      confirmation({ TopicArn: `${TOPIC}2` }),
      notification({ SignatureVersion: "3" }),
    ])
      expect((await post(signed(message))).status).toBe(401);
    expect(published.asked).toEqual([]);
  });

  test("raw delivery is refused, and the reason names the remedy", async () => {
    const answer = await post("Hello", { "x-amz-sns-rawdelivery": "true" });
    expect([answer.status, lastReason()]).toEqual([
      401,
      "malformed: raw message delivery has no signature: disable it for this subscription at Amazon SNS",
    ]);
  });

  let urls = 0;
  /** Publishes a certificate at a new URL. */
  function certificateAt(text: string, more: object = {}): string {
    urls += 1;
    const url = `${HOST}/SimpleNotificationService-${urls}.pem`;
    published.at.set(url, { text, ...more });
    return url;
  }

  const distrusted: [string, string, () => { cert: string; key: string }][] = [
    [
      "its issuers do not lead to a root",
      "has no chain that leads to a root",
      () => {
        const between = issue("Between", { isCa: true });
        const own = issue("sns.amazonaws.com", { by: between });
        return { cert: own.cert + between.cert, key: own.key };
      },
    ],
    [
      "its issuer is not an authority",
      "has no chain that leads to a root",
      () => {
        const between = issue("Between", { by: root });
        const own = issue("sns.amazonaws.com", { by: between });
        return { cert: own.cert + between.cert, key: own.key };
      },
    ],
    [
      "it is for another host",
      "is not for sns.amazonaws.com or sns-signing.us-east-1.amazonaws.com",
      () => issue("sns-signing.eu-west-1.amazonaws.com", { by: root }),
    ],
  ];
  test.each(sample(distrusted))("a certificate is refused and not kept if %s", async (_, reason, make) => {
    const { cert, key } = make();
    const SigningCertURL = certificateAt(cert);
    for (let times = 1; times <= 2; times++) {
      expect((await post(signed(notification({ SigningCertURL }), key))).status).toBe(503);
      expect(lastReason()).toBe(`the signing certificate ${reason}`);
      expect(published.asked).toEqual(Array(times).fill(SigningCertURL));
      now += 5000;
    }
  });

  const useless: [string, object, unknown][] = [
    ["is a page in HTML", { text: "<html>Not found</html>" }, "there is no certificate in PEM"],
    ["is huge", { text: "x".repeat(300_000) }, "the answer is longer than 262144 bytes"],
    ["redirects", { status: 302, headers: { Location: CERT_URL } }, "status 302"],
    ["is missing", { status: 404 }, "status 404"],
    [
      "is broken",
      { text: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----" },
      expect.any(String),
    ],
  ];
  test.each(sample(useless, 2))(
    "if the certificate %s, the answer makes the sender retry",
    async (_, answered, reason) => {
      const SigningCertURL = certificateAt("", answered);
      const answer = await post(signed(notification({ SigningCertURL })));
      expect([answer.status, answer.json()["code"]]).toEqual([503, "webhook.keys_unavailable"]);
      const rejections = createRejectedList(webhooks.redis.partition);
      await eventually("it is listed", async () => {
        const [entry] = (await rejections.matching({ path: "/sns" }, 1)).newest;
        return entry?.code === "webhook.keys_unavailable" && entry.reason === lastReason();
      });
      // The gateway may still log the failed fetch of another certificate, which an earlier request began.
      const unfetched = gateway.log.events.filter(({ fields }) => fields?.["url"] === SigningCertURL);
      expect(unfetched).toMatchObject([
        { event: "webhook.keys_unfetched", fields: { path: "/sns", url: SigningCertURL, reason } },
      ]);
    },
  );

  test("a reload keeps the certificates, even while they cannot be fetched", async () => {
    await post(signed(notification()));
    published.at.clear();
    const next = await webhooks.start({
      endpoints: [{ path: "/sns", preset: "aws-sns", job_id: 2, topics: [TOPIC] }],
      clock: () => now,
      getText: published.getText,
      rootCertificates: [root.cert],
      follows: gateway,
    });
    const body = JSON.stringify(signed(notification()));
    expect((await send(next.address, { path: "/sns", body })).status).toBe(200);
  });

  test("a subscription to a listed topic is confirmed once, and nothing is queued", async () => {
    const message = signed(confirmation());
    const { SubscribeURL } = message;
    published.at.set(String(SubscribeURL), { text: "<ConfirmSubscriptionResponse/>" });
    for (const answer of [await post(message), await post(message), await post(signed(confirmation()))])
      expect([answer.status, answer.text]).toEqual([200, ""]);
    expect(published.asked.filter((url) => url === SubscribeURL)).toHaveLength(1);
    expect(gateway.log.events).toContainEqual({
      event: "webhook.subscription_confirmed",
      fields: { path: "/sns", topic: TOPIC },
    });
    expect(await webhooks.waiting()).toEqual([]);
  });

  test("if SNS does not confirm, the sender must retry, and the gateway calls SNS at most every 10 s", async () => {
    const Token = "another";
    const message = signed(
      confirmation({
        Token,
        SubscribeURL: `${HOST}/?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=${Token}`,
      }),
    );
    const SubscribeURL = String(message["SubscribeURL"]);
    const answers = [await post(message), await post(message)];
    expect(
      answers.map((answer) => [answer.status, answer.json()["code"], answer.headers["retry-after"]]),
    ).toEqual(Array(2).fill([503, "webhook.confirmation_failed", "10"]));
    expect(published.asked.filter((url) => url === SubscribeURL)).toHaveLength(1);
    published.at.set(SubscribeURL, {});
    now += 10_000;
    expect((await post(message)).status).toBe(200);
  });

  const notConfirmed: [string, string][] = [
    ["a link-local address", "http://169.254.169.254/latest/meta-data"],
    ["another host", "https://attacker.example/?Action=ConfirmSubscription"],
    [
      "another region",
      `https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=${TOKEN}`,
    ],
    ["another action", `${HOST}/?Action=Publish&TopicArn=${TOPIC}&Token=${TOKEN}`],
    ["two actions", `${HOST}/?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=${TOKEN}&Action=Publish`],
    ["another topic", `${HOST}/?Action=ConfirmSubscription&TopicArn=${TOPIC}2&Token=${TOKEN}`],
    [
      "a user",
      `https://a:b@sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=${TOKEN}`,
    ],
    ["a path", `${HOST}/../?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=${TOKEN}`],
  ];
  test.each(sample(notConfirmed, 3))(
    "a SubscribeURL with %s is not fetched, even if it is signed",
    async (_, SubscribeURL) => {
      const answer = await post(signed(confirmation({ SubscribeURL })));
      expect([answer.status, answer.json()["code"]]).toEqual([403, "webhook.handshake_refused"]);
      expect(published.asked).not.toContain(SubscribeURL);
    },
  );

  test("an UnsubscribeConfirmation is answered but not confirmed, because confirming would subscribe again", async () => {
    const message = signed(confirmation({ Type: "UnsubscribeConfirmation", Token: "left" }));
    expect((await post(message)).status).toBe(200);
    expect(published.asked).not.toContain(message["SubscribeURL"]);
    expect(await webhooks.waiting()).toEqual([]);
  });

  onlyInLongRun(() => {
    test("a certificate with its issuers is trusted if they lead to a root", async () => {
      const between = issue("Between", { by: root, isCa: true });
      const own = issue("sns-signing.us-east-1.amazonaws.com", { by: between });
      const SigningCertURL = certificateAt(own.cert + between.cert);
      expect((await post(signed(notification({ SigningCertURL }), own.key))).status).toBe(200);
    });

    test("a certificate is refused once it has expired, even if it was kept before", async () => {
      const brief = issue("sns.amazonaws.com", { by: root, days: 1 });
      const SigningCertURL = certificateAt(brief.cert);
      const by = (message: Message) => signed({ ...message, SigningCertURL }, brief.key);
      expect((await post(by(notification()))).status).toBe(200);
      now += DAY - 1000;
      expect((await post(by(notification()))).status).toBe(401);
      expect(lastReason()).toContain("the signing certificate is not valid now");
    });

    test("strangers cannot delay a message with certificates that do not exist, are useless, or verify nothing", async () => {
      const old = issue("sns.amazonaws.com", { by: root });
      const useless = issue("sns.amazonaws.com", { isCa: true, by: root });
      await post(signed(notification()));
      for (let n = 0; n < 40; n++) {
        const text = [old.cert, useless.cert, root.cert][n % 3] ?? "";
        const SigningCertURL = certificateAt(text, n % 2 === 0 ? {} : { status: 404 });
        await post(notification({ SigningCertURL, Signature: "AAAA" }));
      }
      expect((await post(signed(notification()))).status).toBe(200);
      expect(published.asked.length).toBeLessThanOrEqual(31);
      now += 5000;
      const SigningCertURL = certificateAt(signer.cert);
      expect((await post(signed(notification({ SigningCertURL })))).status).toBe(200);
    });

    test("a topic in China has its certificate at amazonaws.com.cn, with a name of its region", async () => {
      const own = issue("sns-cn-north-1.amazonaws.com.cn", { by: root });
      const SigningCertURL = "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-1.pem";
      published.at.set(SigningCertURL, { text: own.cert });
      const TopicArn = "arn:aws-cn:sns:cn-north-1:123456789012:orders";
      expect(
        (await post(signed(notification({ TopicArn, SigningCertURL }), own.key), {}, "/china")).status,
      ).toBe(200);
    });

    test("sns-validator, Amazon's own library, judges messages as the gateway does", async () => {
      const server = createServer(TEST_TLS, (_req, res) => res.end(signer.cert));
      await new Promise((resolve) => server.listen(0, "localhost", () => resolve(undefined)));
      const before = globalAgent.options.ca;
      globalAgent.options.ca = TEST_TLS.cert;
      try {
        const { port } = server.address() as AddressInfo;
        const SigningCertURL = `https://localhost:${port}/one.pem`;
        const judge = new MessageValidator(/^localhost:\d+$/);
        const accepts = (message: Message) =>
          new Promise((resolve) =>
            judge.validate({ ...message, SigningCertURL }, (error) => resolve(error === null)),
          );
        const own = signed(notification());
        const { Subject: _, ...plain } = notification({ SignatureVersion: "1" });
        const asking = signed(confirmation());
        published.at.set(String(asking["SubscribeURL"]), {});
        const all = [own, signed(plain), asking, { ...own, Message: "x" }, { ...own, SignatureVersion: "3" }];
        for (const message of all) {
          const { status } = await post(message);
          expect([message, await accepts(message)]).toEqual([message, status === 200]);
        }
      } finally {
        globalAgent.options.ca = before;
        server.close();
      }
    });
  });
});
