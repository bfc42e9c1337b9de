import { afterEach, beforeAll, expect, test } from "vitest";
import { PRESETS } from "../../../../shared/webhook-auth/presets/presets.ts";
import { at, endpointFor, VERIFY_TOKEN } from "../../../fixtures/senders/endpoints.ts";
import { type Asked, handshakes } from "../../../fixtures/senders/handshakes.ts";
import { oracleAttempts } from "../../../fixtures/senders/oracle-attempts.ts";
import { type Occasion, sent } from "../../../fixtures/senders/sender.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const NOW = Date.parse("2026-11-22T12:00:00Z");
const webhooks = useWebhooks();
let gateway: TestWebhooks;

const asked = handshakes.filter(({ proof }) => proof !== "an endpoint opened for it");
const pathOf = (preset: string) => `/s/${preset}`;

beforeAll(async () => {
  const forms = new Map([...asked, ...oracleAttempts].map((each) => [each.preset, each]));
  const endpoints = [...forms.values()].map((each) =>
    endpointFor({ ...each, name: each.preset } as Parameters<typeof endpointFor>[0], pathOf(each.preset), [
      each.key("new").configured,
      each.key("old").configured,
    ]),
  );
  gateway = await webhooks.start({ endpoints, clock: () => NOW });
});

afterEach(async () => {
  expect(await webhooks.waiting()).toEqual([]);
});

const on = (key: Occasion["keys"][0]): Occasion => ({ keys: [key], at: new Date(NOW), id: "h-1" });

const ask = (preset: string, request: Asked) => send(gateway.address, sent(at(pathOf(preset), request)));

/** Senders whose set-up requests look like deliveries and become calls. */
const DELIVERED = ["asana", "xero"];

test.each(
  asked.filter(({ preset }) => !DELIVERED.includes(preset)).map((each) => [each.name, each] as const),
)("%s, and is answered as it wants, with nothing queued", async (_name, handshake) => {
  const occasion = on(handshake.key("new"));
  const answer = await ask(handshake.preset, handshake.ask(occasion));
  const { status, body, headers = {} } = handshake.want(occasion);
  expect(answer.status).toBe(status);
  if (typeof body === "string") expect(answer.text).toBe(body);
  else expect(answer.json()).toEqual(body.json);
  for (const [name, value] of Object.entries(headers)) expect(answer.headers[name]).toMatch(value);
  expect(answer.headers).toMatchObject({
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
  });
});

test.each(asked.filter(({ proof }) => proof === "signature").map((each) => [each.name, each] as const))(
  "%s under a foreign key, and is refused with 401",
  async (_name, { preset, key, ask: request }) => {
    expect((await ask(preset, request(on(key("foreign"))))).status).toBe(401);
  },
);

const META = "/s/meta?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=";
test.each([
  ["another verify token", `${META}${VERIFY_TOKEN}x`],
  ["no verify token", META],
  ["two verify tokens", `${META}${VERIFY_TOKEN}&hub.verify_token=${VERIFY_TOKEN}`],
  ["a challenge of 1,025 bytes", `/s/dropbox?challenge=${"a".repeat(1025)}`],
  ["a challenge with a control character", "/s/dropbox?challenge=a%0d%0aSet-Cookie:%20a"],
  ["a challenge beyond ASCII", "/s/dropbox?challenge=%E2%80%AE"],
  ["an empty challenge", "/s/dropbox?challenge="],
  ["two challenges", "/s/dropbox?challenge=a&challenge=b"],
])("a handshake with %s is refused", async (_what, path) => {
  const answer = await send(gateway.address, { method: "GET", path });
  expect([403, 405]).toContain(answer.status);
  expect(answer.text).not.toMatch(/1158201444|Set-Cookie/);
});

test.each(["GET", "HEAD", "OPTIONS", "PUT"])(
  "%s that is not a handshake is refused with 405, which names the accepted methods",
  async (method) => {
    const answer = await send(gateway.address, { method, path: "/s/slack" });
    expect(answer.status).toBe(405);
    expect(answer.headers["allow"]).toBe("POST");
  },
);

/**
 * A handshake's answer is a MAC under the key that signs deliveries. An attacker must not be able to use it as the
 * signature of a delivery.
 */
test.each(oracleAttempts.map((each) => [each.name, each] as const))(
  "%s, and gets none",
  async (_name, attempt) => {
    const occasion = on(attempt.key("new"));
    const answer = await ask(attempt.preset, attempt.ask(occasion));
    expect(answer.status).toBe(403);
  },
);

test("a token that X's handshake signs is refused as a delivery", async () => {
  const token = "ZTFiNDEtMmM0Zi00YjY4";
  const { response_token } = (
    await send(gateway.address, { method: "GET", path: `/s/x?crc_token=${token}` })
  ).json();
  const headers = ["X-Twitter-Webhooks-Signature", String(response_token)];
  expect((await send(gateway.address, { path: "/s/x", headers, body: token })).status).toBe(401);
});

test("every preset with a handshake has a test of it", () => {
  const withHandshake = Object.entries(PRESETS).filter(
    ([, { endpoint }]) => endpoint.handshakes !== undefined,
  );
  // The handshakes of Amazon SNS are tested in aws-sns.test.ts.
  const known = new Set([...handshakes.map(({ preset }) => preset), "aws-sns"]);
  expect(withHandshake.map(([name]) => name).filter((name) => !known.has(name))).toEqual([]);
});
