import { createHmac, generateKeyPairSync, type KeyObject, sign as signWith } from "node:crypto";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { TOKEN_ALGORITHMS } from "../../../shared/webhook-auth/keys/algorithms.ts";
import { PRESETS } from "../../../shared/webhook-auth/presets/presets.ts";
import { signJwt } from "../../../shared/webhook-auth/sample/sign-jwt.ts";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";
import { LONG_RUN, sample } from "../../support/long-run.ts";

const NOW = Date.parse("2026-11-22T12:00:00Z");
const NOW_SECS = NOW / 1000;
const MINUTE = 60_000;
const AUDIENCE = "https://hooks.example.com/hooks/issued";
const ISSUER = "https://issuer.example.com";

type Pair = { kid: string; alg: string; publicKey: KeyObject; privateKey: KeyObject };

const rsa = (kid: string, modulusLength = 2048, alg = "RS256"): Pair => ({
  ...generateKeyPairSync("rsa", { modulusLength }),
  ...{ kid, alg },
});
const p256 = (kid: string): Pair => ({
  ...generateKeyPairSync("ec", { namedCurve: "P-256" }),
  ...{ kid, alg: "ES256" },
});

const first = rsa("first");
const second = p256("second");
const stranger = rsa("first");
const short = rsa("short", 1024);
// The same key under other names, because each RSA key takes a while to make.
const unknown = { ...stranger, kid: "unknown" };
const forEncryption = { ...stranger, kid: "encryption" };

const jwkOf = ({ kid, publicKey }: Pair, more: object = {}) => ({
  ...publicKey.export({ format: "jwk" }),
  ...{ kid, ...more },
});
const setOf = (...keys: object[]) => JSON.stringify({ keys });

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const claims = (changed: object = {}) => ({
  ...{ iss: ISSUER, aud: AUDIENCE, iat: NOW_SECS, exp: NOW_SECS + 3600 },
  ...{ email: "sender@example.com", email_verified: true, level: 3, ...changed },
});

type Changes = { by?: Pair; header?: object; claims?: object };

/** Makes a token without a library, so that neither Postern nor its JWT library is involved. */
function token({ by = first, header = {}, claims: changed = {} }: Changes = {}): string {
  const text = `${encoded({ alg: by.alg, kid: by.kid, typ: "JWT", ...header })}.${encoded(claims(changed))}`;
  const signature = signWith("sha256", Buffer.from(text), { key: by.privateKey, dsaEncoding: "ieee-p1363" });
  return `${text}.${signature.toString("base64url")}`;
}

/** An issuer on this machine. A test sets its answer. */
const issuer = { url: "", asked: [] as string[], answer: (() => {}) as RequestListener };
const server = createServer((req, res) => {
  issuer.asked.push(req.url ?? "");
  issuer.answer(req, res);
});
const publish = (text: string) => {
  issuer.answer = (_, res) => void res.end(text);
};

const webhooks = useWebhooks();
const clock = { now: NOW };
const ENDPOINT = {
  ...{ job_id: 1, auth: "jwt", issuer: ISSUER, audience: AUDIENCE, delivery_id: "{body:/id}" },
  claims: { email: "sender@example.com", email_verified: true, level: 3 },
};

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  issuer.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  clock.now = NOW;
  issuer.asked = [];
  publish(setOf(jwkOf(first), jwkOf(second), jwkOf(short), jwkOf(forEncryption, { use: "enc" })));
});

async function start(...endpoints: Record<string, unknown>[]): Promise<TestWebhooks> {
  const made = endpoints.map((own) => ({ ...ENDPOINT, jwks: `${issuer.url}/keys`, ...own }));
  return await webhooks.start({
    endpoints: made,
    clock: () => clock.now,
    webhooks: { refusals_per_minute: 10_000 },
  });
}

const bearer = (text: string) => ["Authorization", `Bearer ${text}`];
const post = (gateway: TestWebhooks, headers: string[], { path = "/hook", body = "{}" } = {}) =>
  send(gateway.address, { path, headers, body });
const statusOf = async (gateway: TestWebhooks, text: string, path?: string) =>
  (await post(gateway, bearer(text), { ...(path && { path }) })).status;
const lastReason = (gateway: TestWebhooks) => gateway.log.events.at(-1)?.fields["reason"];

describe("a token of the issuer", () => {
  let gateway: TestWebhooks;
  beforeAll(async () => {
    gateway = await start(
      { path: "/hook" },
      { path: "/pss", algorithms: ["PS256"] },
      { path: "/fixed", jwks: setOf(jwkOf(first), jwkOf(second)) },
      { path: "/two", jwks: setOf(jwkOf(first), { ...jwkOf(stranger), kid: "first" }) },
    );
  });

  const accepted: Record<string, Changes> = {
    "by an RSA key": {},
    "by a P-256 key": { by: second },
    "for several audiences": { claims: { aud: ["https://other.example.com", AUDIENCE] } },
    "that has expired by less than a minute": { claims: { exp: NOW_SECS - 59 } },
    "that becomes valid in less than a minute": { claims: { nbf: NOW_SECS + 60, iat: NOW_SECS + 60 } },
    "of another type": { header: { typ: "at+jwt" } },
  };
  test.each(sample(Object.entries(accepted), 2))(
    "%s is accepted, and is not passed on to the runner",
    async (_, changes) => {
      const text = token(changes);
      expect([await statusOf(gateway, text), lastReason(gateway)]).toEqual([202, undefined]);
      expect(JSON.stringify(await webhooks.onlyCall())).not.toContain(text);
      expect(gateway.log.text()).not.toContain(text);
    },
  );

  const PADDING = { padding: 6, saltLength: 32 } as const; // RSA-PSS
  test("with PSS is accepted if the endpoint lists that algorithm", async () => {
    const text = `${encoded({ alg: "PS256", kid: "first" })}.${encoded(claims())}`;
    const signature = signWith("sha256", Buffer.from(text), { key: first.privateKey, ...PADDING });
    expect(await statusOf(gateway, `${text}.${signature.toString("base64url")}`, "/pss")).toBe(202);
    expect(await statusOf(gateway, token(), "/pss")).toBe(401);
  });

  const unsigned = (header: object) => `${encoded(header)}.${encoded(claims())}.`;
  const byMac = () => {
    const text = `${encoded({ alg: "HS256", kid: "first" })}.${encoded(claims())}`;
    const key = first.publicKey.export({ format: "pem", type: "spki" });
    return `${text}.${createHmac("sha256", key).update(text).digest("base64url")}`;
  };
  const refused: Record<string, [text: string | Changes, reason: string, path?: string]> = {
    "without a signature (none)": [unsigned({ alg: "none", kid: "first" }), "mismatch: the alg"],
    "without a signature (nOnE)": [unsigned({ alg: "nOnE", kid: "first" }), "mismatch: the alg"],
    "with an empty signature": [unsigned({ alg: "RS256", kid: "first" }), "mismatch", "/fixed"],
    "with the public key as secret": [byMac(), "mismatch: the alg"],
    "for another audience": [{ claims: { aud: `${AUDIENCE}/` } }, "mismatch: the claim aud"],
    "without an audience": [{ claims: { aud: undefined } }, "malformed: the token must have the claim aud"],
    "of another issuer": [{ claims: { iss: `${ISSUER}.evil.example` } }, "mismatch: the claim iss"],
    "of a list of issuers": [{ claims: { iss: [ISSUER] } }, "mismatch: the claim iss"],
    "of an unverified address": [{ claims: { email_verified: false } }, "mismatch: the claim email_verified"],
    "with a claim as text": [{ claims: { email_verified: "true" } }, "mismatch: the claim email_verified"],
    "with a number as text": [{ claims: { level: "3" } }, "mismatch: the claim level"],
    "without a claim": [{ claims: { email: undefined } }, "mismatch: the token lacks the claim email"],
    "that has expired": [{ claims: { exp: NOW_SECS - 60 } }, "stale: the claim exp"],
    "that does not expire": [{ claims: { exp: undefined } }, "malformed: the token must have the claim exp"],
    "whose expiry is text": [{ claims: { exp: "2030-01-01" } }, "malformed: the claim exp must be a number"],
    "that is not valid yet": [{ claims: { nbf: NOW_SECS + 61 } }, "early: the claim nbf"],
    "from the future": [{ claims: { iat: NOW_SECS + 61 } }, "early: the claim iat"],
    "by another key with this kid": [{ by: stranger }, "mismatch", "/fixed"],
    "by a key of another kind": [
      { by: first, header: { kid: "second", alg: "ES256" } },
      "mismatch",
      "/fixed",
    ],
    "with critical extensions": [{ header: { crit: ["exp"], exp: 1 } }, "malformed: the token must not have"],
    "with an unencoded payload": [{ header: { crit: ["b64"], b64: false } }, "malformed: "],
    "with its own key": [{ by: stranger, header: { jwk: jwkOf(stranger) } }, "mismatch", "/fixed"],
    "without a kid": [{ header: { kid: undefined } }, "malformed: the token must have a kid"],
    "with a number as kid": [{ header: { kid: 1 } }, "malformed: the kid of the token must be text"],
    "with only two parts": [
      token().split(".").slice(0, 2).join("."),
      "malformed: the token must be a signed JWT",
    ],
    "that is not a token": ["hello", "malformed: the token must be a signed JWT"],
  };
  test.each(sample(Object.entries(refused), 11))("%s is refused", async (_, [made, reason, path]) => {
    expect(await statusOf(gateway, token())).toBe(202);
    const before = await webhooks.waiting();
    expect(await statusOf(gateway, typeof made === "string" ? made : token(made), path)).toBe(401);
    expect(lastReason(gateway)).toMatch(new RegExp(`^${reason}`));
    expect(await webhooks.waiting()).toEqual(before);
  });

  test("is refused if it is missing, sent twice, or in another scheme", async () => {
    const reasonOf = async (...headers: string[]) => {
      const { status, headers: answered } = await post(gateway, headers);
      expect([status, answered["www-authenticate"]]).toEqual([401, 'Bearer realm="postern"']);
      return lastReason(gateway);
    };
    expect(await reasonOf(...bearer(token()), ...bearer(token()))).toMatch(/^repeated/);
    expect(await reasonOf("Authorization", `JWT ${token()}`)).toMatch(/^malformed/);
    expect(await reasonOf()).toMatch(/^missing/);
  });

  test("cannot choose where its key is fetched", async () => {
    const before = issuer.asked.length;
    for (const jku of ["http://169.254.169.254/latest/meta-data", `${issuer.url}/theirs`]) {
      const theirs = { by: stranger, header: { jku, x5u: jku } };
      expect([401, 503]).toContain(await statusOf(gateway, token(theirs)));
    }
    expect(issuer.asked.slice(before)).not.toContain("/theirs");
  });

  test("is refused with any character changed", async () => {
    const text = token({ by: second });
    // The last character of a 64-byte signature has unused bits, so it is skipped.
    for (let at = 0; at < text.length - 1; at += LONG_RUN ? 5 : 31) {
      const other = text[at] === "A" ? "B" : "A";
      const status = await statusOf(gateway, `${text.slice(0, at)}${other}${text.slice(at + 1)}`);
      // A changed kid may name a new key, so the gateway may answer 503.
      expect([401, 503]).toContain(status);
    }
  });

  test("needs no kid if exactly one key of the configured set fits, and is refused if several fit", async () => {
    expect(await statusOf(gateway, token({ header: { kid: undefined } }), "/fixed")).toBe(202);
    expect(await statusOf(gateway, token({ header: { kid: "unknown" } }), "/fixed")).toBe(401);
    expect(await statusOf(gateway, token(), "/two")).toBe(401);
    expect(lastReason(gateway)).toBe("mismatch: several keys of the key set fit the token");
  });
});

const KEYS_OF: Readonly<Record<string, () => { publicKey: KeyObject; privateKey: KeyObject }>> = {
  RS: () => first,
  PS: () => first,
  ES256: () => second,
  ES384: () => generateKeyPairSync("ec", { namedCurve: "P-384" }),
  ES512: () => generateKeyPairSync("ec", { namedCurve: "P-521" }),
  EdDSA: () => generateKeyPairSync("ed25519"),
};

test("a sample signed with any of the algorithms is accepted only if the endpoint lists that algorithm", async () => {
  const made = TOKEN_ALGORITHMS.map((alg) => {
    const { publicKey, privateKey: key } = (KEYS_OF[alg] ?? KEYS_OF[alg.slice(0, 2)])!();
    const jwks = setOf({ ...publicKey.export({ format: "jwk" }), kid: "its" });
    return { alg, key, jwks };
  });
  const gateway = await start(
    ...made.map(({ alg, jwks }) => ({ path: `/${alg}`, jwks, algorithms: [alg] })),
    ...made.map(({ alg, jwks }) => ({
      ...{ path: `/not-${alg}`, jwks },
      algorithms: TOKEN_ALGORITHMS.filter((each) => each !== alg),
    })),
  );
  for (const { alg, key } of made) {
    const { claims } = ENDPOINT;
    const expected = { issuers: [ISSUER], audience: AUDIENCE, algorithms: [alg], claims };
    const text = signJwt(expected, { key, kid: "its" }, new Date(NOW));
    const statuses = [await statusOf(gateway, text, `/${alg}`), await statusOf(gateway, text, `/not-${alg}`)];
    expect([alg, ...statuses]).toEqual([alg, 202, 401]);
  }
});

test("a repeat of a delivery is the same call, even with another token and body", async () => {
  const gateway = await start({ path: "/hook" });
  const tryTimes = async (attempt: number) => {
    const body = JSON.stringify({ id: "m-1", attempt });
    const { headers, json } = await post(gateway, bearer(token({ claims: { attempt } })), { body });
    return [headers["idempotent-replayed"], json()["call_id"]];
  };
  const [, id] = await tryTimes(1);
  expect(await tryTimes(2)).toEqual(["true", id]);
  await webhooks.onlyCall();
});

test("if several accounts may send, another body under a known id is refused, so that no delivery is lost silently", async () => {
  const gateway = await start({ path: "/hook", claims: { level: 3 } });
  const sendAs = async (email: string) => {
    const answer = await post(gateway, bearer(token({ claims: { email } })), {
      body: JSON.stringify({ id: "m-1", email }),
    });
    return [answer.status, answer.headers["idempotent-replayed"]];
  };
  expect(await sendAs("one@example.com")).toEqual([202, undefined]);
  expect(await sendAs("one@example.com")).toEqual([202, "true"]);
  expect(await sendAs("other@example.com")).toEqual([409, undefined]);
});

test("messages of two Pub/Sub subscriptions are two calls, even if their topics give them the same id", async () => {
  const { delivery_id } = PRESETS["google-pubsub"]?.endpoint ?? {};
  const gateway = await start({ path: "/hook", delivery_id });
  for (const [subscription, deliveryAttempt] of [["a"], ["a", 2], ["b"]] as const) {
    const body = JSON.stringify({ message: { messageId: "1" }, subscription, deliveryAttempt });
    expect((await post(gateway, bearer(token()), { body })).status).toBe(202);
  }
  expect(await webhooks.waiting()).toHaveLength(2);
});

test("an unknown key causes at most one fetch a minute, and is refused only after it", async () => {
  const gateway = await start({ path: "/hook" });
  expect(await statusOf(gateway, token({ by: unknown }))).toBe(401);
  expect(lastReason(gateway)).toBe("mismatch: no key of the key set has the kid and alg of the token");
  const { status, headers, json } = await post(gateway, bearer(token({ by: unknown })));
  expect([status, headers["retry-after"], json()["code"]]).toEqual([503, "60", "webhook.keys_unavailable"]);

  const flood = Array.from({ length: LONG_RUN ? 50 : 10 }, (_, n) =>
    token({ header: { kid: `unknown-${n}` } }),
  );
  for (let minute = 1; minute <= 3; minute += 1) {
    clock.now = NOW + minute * MINUTE;
    await Promise.all(flood.map((text) => statusOf(gateway, text)));
    expect(await statusOf(gateway, token())).toBe(202);
  }
  expect(issuer.asked).toHaveLength(4);
});

test("a token under the issuer's newest key gets 503 until the keys may be fetched, and is accepted afterwards", async () => {
  const gateway = await start({ path: "/hook" });
  expect(await statusOf(gateway, token())).toBe(202);
  const rotated = p256("rotated");
  publish(setOf(jwkOf(rotated)));
  clock.now = NOW + MINUTE - 1;
  expect(await statusOf(gateway, token({ by: rotated }))).toBe(503);
  clock.now = NOW + MINUTE;
  expect(await statusOf(gateway, token({ by: rotated }))).toBe(202);
  // The issuer no longer publishes the old key.
  expect(await statusOf(gateway, token())).toBe(503);
  clock.now = NOW + 2 * MINUTE;
  expect(await statusOf(gateway, token())).toBe(401);
});

test("a key that is replaced under its kid counts after the next fetch, and until then the answer is undecided", async () => {
  const gateway = await start({ path: "/hook" });
  expect(await statusOf(gateway, token())).toBe(202);
  publish(setOf({ ...jwkOf(stranger), kid: "first" }));
  clock.now = NOW + MINUTE - 1;
  expect(await statusOf(gateway, token({ by: stranger }))).toBe(503);
  clock.now = NOW + MINUTE;
  expect(await statusOf(gateway, token({ by: stranger }))).toBe(202);
  clock.now = NOW + 2 * MINUTE;
  expect([await statusOf(gateway, token({ by: first })), lastReason(gateway)]).toEqual([401, "mismatch"]);
  expect(issuer.asked).toHaveLength(3);
});

test.each([
  ["that is too short", short],
  ["for encryption", forEncryption],
])("a token under a key %s is refused", async (_, by) => {
  const gateway = await start({ path: "/hook" });
  expect(await statusOf(gateway, token({ by }))).toBe(401);
});

test("an issuer whose answer is wrong, too long, late or a redirect verifies nothing, and the log says why", async () => {
  const good = setOf(jwkOf(first));
  const faults: Record<string, [answer: RequestListener, reason: RegExp]> = {
    "/redirect": [(_, res) => void res.writeHead(302, { Location: "/good" }).end(), /status 302/],
    "/good": [(_, res) => void res.end(good), /never asked/],
    "/failing": [(_, res) => void res.writeHead(500).end(good), /status 500/],
    "/silent": [() => {}, /no answer within 5000 ms/],
    "/slow": [(_, res) => void res.write(good.slice(0, 9)), /no answer within 5000 ms/],
    "/long": [(_, res) => void res.end(good + " ".repeat(256 * 1024)), /longer than 262144 bytes/],
    "/html": [(_, res) => void res.end("<html>hello</html>"), /no JSON Web Key Set/],
    "/list": [(_, res) => void res.end("[]"), /no JSON Web Key Set/],
    "/none": [(_, res) => void res.end(setOf({ kty: "oct", k: "AAAA", kid: "first" })), /no key that can/],
    "/many": [(_, res) => void res.end(setOf(...Array(65).fill(jwkOf(first)))), /more than 64 keys/],
    "/gone": [(req) => void req.socket.destroy(), /the request failed/],
  };
  issuer.answer = (req, res) => faults[req.url ?? ""]?.[0](req, res);
  const paths = Object.keys(faults).filter((path) => path !== "/good");
  const gateway = await start(...paths.map((path) => ({ path, jwks: `${issuer.url}${path}` })));
  expect(await Promise.all(paths.map((path) => statusOf(gateway, token(), path)))).toEqual(
    paths.map(() => 503),
  );
  for (const path of paths) {
    const unfetched = gateway.log.events.filter(({ event }) => event === "webhook.keys_unfetched");
    const [one, ...more] = unfetched.filter(({ fields }) => fields["path"] === path);
    expect([one?.fields["reason"], more]).toEqual([expect.stringMatching(faults[path]![1]), []]);
  }
  expect(issuer.asked.sort()).toEqual(paths.sort());
  expect(await webhooks.waiting()).toEqual([]);
});

test("a client that leaves during the fetch of keys leaves no trace in memory", async () => {
  const held: (() => void)[] = [];
  issuer.answer = (_, res) => void held.push(() => res.end(setOf(jwkOf(first))));
  const gateway = await start({ path: "/hook" });
  const left = connect(Number(gateway.address.split(":")[1]), "127.0.0.1");
  const head = ["POST /hook HTTP/1.1", "Host: a", "Content-Length: 9", `Authorization: Bearer ${token()}`];
  left.write(`${head.join("\r\n")}\r\n\r\n{}`);
  await eventually("the keys are asked for", () => held.length > 0);
  left.destroy();
  const waiting = statusOf(gateway, token());
  held[0]?.();
  expect([await waiting, lastReason(gateway)]).toEqual([202, undefined]);
  await webhooks.onlyCall();
  expect(issuer.asked).toHaveLength(1);
});
