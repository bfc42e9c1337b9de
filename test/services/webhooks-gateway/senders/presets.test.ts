import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { PRESETS } from "../../../../shared/webhook-auth/presets/presets.ts";
import type { Description } from "../../../../shared/webhook-auth/sender-description.ts";
import { at, endpointFor, sendersWithPreset } from "../../../fixtures/senders/endpoints.ts";
import { type Occasion, type Sender, type Signed, sent } from "../../../fixtures/senders/sender.ts";
import { senderNamed } from "../../../fixtures/senders/senders.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { LONG_RUN, sample } from "../../../support/long-run.ts";

const NOW = Date.parse("2026-11-22T12:00:00Z");
const ENCODED: [string, string] = ["Content-Encoding", "gzip"];
const TIMED = sendersWithPreset.filter((sender) => sender.timed && windowOf(sender) !== undefined);
const SAMPLED_WINDOWS = sample(TIMED, 3);
const webhooks = useWebhooks();
let gateway: TestWebhooks;
const pathOf = (sender: Sender) => `/s/${sendersWithPreset.indexOf(sender)}`;

beforeAll(async () => {
  const endpoints = sendersWithPreset.map((sender) =>
    endpointFor(sender, pathOf(sender), [sender.key("new").configured, sender.key("old").configured]),
  );
  gateway = await webhooks.start({
    endpoints,
    clock: () => NOW,
    webhooks: { refusals_per_minute: 10_000 },
  });
});

const post = (sender: Sender, signed: Signed) => send(gateway.address, sent(at(pathOf(sender), signed)));

/** Replacements for a credential. */
const SPOILED: [how: string, spoil: (value: string) => string[]][] = [
  ["missing", () => []],
  ["empty", () => [""]],
  ["there twice", (value) => [value, value]],
  ["one character shorter", (value) => [value.slice(0, -1)]],
  ["behind another prefix", (value) => [`x${value}`]],
];

/** Whether the sender is the first with its way to authenticate. Only for these, `npm test` tests each replacement. */
const isFirstOfItsKind = (sender: Sender) => {
  const authOf = ({ preset }: Sender) => PRESETS[preset]?.endpoint.auth;
  return sender === sendersWithPreset.find((other) => authOf(other) === authOf(sender));
};

let deliveries = 0;
function occasion(sender: Sender, { key = "new", secsFromNow = 0 } = {}): Occasion {
  deliveries += 1;
  return {
    keys: [sender.key(key)],
    at: new Date(NOW + secsFromNow * 1000),
    id: `d-${deliveries}-cc78-11e3-81ab`,
  };
}

const successOf = ({ preset }: Sender) => PRESETS[preset]?.endpoint.answer?.status ?? 202;
const lastReason = () => gateway.log.events.at(-1)?.fields?.["reason"];

/** Senders whose messages name a certificate. Each has its own test file. */
const CERTIFIED = ["aws-sns", "paypal"];

test("every preset is tested with an independent signer", () => {
  const tested = new Set([...sendersWithPreset.map(({ preset }) => preset), ...CERTIFIED]);
  expect(Object.keys(PRESETS).filter((preset) => !tested.has(preset))).toEqual([]);
});

describe.each(sendersWithPreset.map((sender) => [sender.name, sender] as const))("%s", (_name, sender) => {
  const endpoint: Partial<Description> = PRESETS[sender.preset]?.endpoint ?? {};

  test.each(sample(["old", "new"]))("is accepted under each live secret: the %s one", async (key) => {
    const on = occasion(sender, { key });
    const signed = sender.sign(sender.sample, on);
    const answer = await post(sender, signed);
    expect([answer.status, lastReason()]).toEqual([successOf(sender), undefined]);
    const call = await webhooks.onlyCall();
    expect(Buffer.from(call.body, "base64")).toEqual(signed.body);
    if (sender.event !== undefined && endpoint.event_type !== undefined)
      expect(call.metadata["X-WEBHOOK-EVENT"]).toContain(sender.event);
    if (sender.id !== undefined)
      expect(call.metadata["X-WEBHOOK-DELIVERY-ID"]).toContain(
        "sample" in sender.id ? sender.id.sample : on.id,
      );
  });

  test("is refused if it is signed with a secret that is not configured", async () => {
    expect(
      (await post(sender, sender.sign(sender.sample, occasion(sender, { key: "foreign" })))).status,
    ).toBe(401);
    expect(await webhooks.waiting()).toEqual([]);
  });

  const credential = credentialHeaders(sender);
  if (credential.length > 0)
    test.each(sample(SPOILED, isFirstOfItsKind(sender) ? SPOILED.length : 0))(
      "is refused if its credential is %s",
      async (_how, spoil) => {
        const { headers, ...signed } = sender.sign(sender.sample, occasion(sender));
        const spoiled = headers.flatMap(([name, value]) => {
          const values = credential.includes(name.toLowerCase()) ? spoil(value) : [value];
          return values.map((text): [string, string] => [name, text]);
        });
        expect(spoiled).not.toEqual(headers);
        expect((await post(sender, { ...signed, headers: spoiled })).status).toBe(401);
        expect(await webhooks.waiting()).toEqual([]);
      },
    );

  if (LONG_RUN && !sender.needsBody)
    test("is accepted with an empty body", async () => {
      const answer = await post(sender, sender.sign(Buffer.alloc(0), occasion(sender)));
      expect(answer.status).toBe(sender.preset === "x" ? 401 : successOf(sender));
    });

  if (sender.signsWithAll)
    test("is accepted if one of several signatures is made with an active secret", async () => {
      const on = occasion(sender);
      const keys: Occasion["keys"] = [sender.key("foreign"), sender.key("old")];
      expect((await post(sender, sender.sign(sender.sample, { ...on, keys }))).status).toBe(
        successOf(sender),
      );
    });

  test.each(sample(sender.decoys ?? []).map((decoy) => [decoy.name, decoy] as const))(
    "is refused if %s",
    async (_decoy, decoy) => {
      expect((await post(sender, decoy.sign(sender.sample, occasion(sender)))).status).toBe(401);
      expect(await webhooks.waiting()).toEqual([]);
    },
  );

  if (SAMPLED_WINDOWS.includes(sender))
    test("is accepted at both ends of its time window, and refused a second outside it", async () => {
      const { past, future } = windowOf(sender)!;
      const answerAt = async (secsFromNow: number) =>
        (await post(sender, sender.sign(sender.sample, occasion(sender, { secsFromNow })))).status;
      expect(await answerAt(-past)).toBe(successOf(sender));
      expect(await answerAt(future)).toBe(successOf(sender));
      expect([await answerAt(-past - 1), lastReason()]).toEqual([
        401,
        expect.stringMatching(/^stale: signed \d+ s before .* past_secs is \d+$/),
      ]);
      expect([await answerAt(future + 1), lastReason()]).toEqual([
        401,
        expect.stringMatching(/^early: signed \d+ s after .* future_secs is \d+$/),
      ]);
    });
});

/** Returns the headers, in lower case, that may hold the preset's credential. */
function credentialHeaders(sender: Sender): string[] {
  const preset: Partial<Description> = PRESETS[sender.preset]?.endpoint ?? {};
  const written: Partial<Description> = endpointFor(sender, "/", [sender.key("new").configured]);
  const { auth, api_key_header } = { ...preset, ...written };
  const names = {
    signature: [preset.signature ?? []].flat().flatMap(({ header }) => header ?? []),
    "api-key": api_key_header ?? [],
    token: [],
  };
  return [names[auth as keyof typeof names] ?? "Authorization"].flat().map((name) => name.toLowerCase());
}

const sentOrText = (preset: string, overSent: number, overText: number) => [
  { preset, over: "as they are sent", signs: (sent: Buffer) => sent, status: overSent },
  { preset, over: "as they were before", signs: (_: Buffer, text: Buffer) => text, status: overText },
];

test.each([...sentOrText("nylas", 200, 401), ...sentOrText("quicknode", 401, 200)])(
  "$preset: compressed bytes that are signed $over get $status",
  async ({ preset, signs, status }) => {
    const sender = senderNamed(preset);
    const compressed = gzipSync(sender.sample);
    const { headers, ...signed } = sender.sign(signs(compressed, sender.sample), occasion(sender));
    const request = { ...signed, headers: [...headers, ENCODED], body: compressed };
    expect((await post(sender, request)).status).toBe(status);
  },
);

/** Returns the preset's time window; undefined if it has none. */
function windowOf({ preset, name }: Sender): { past: number; future: number } | undefined {
  if (name === "grafana (with a timestamp header)") return { past: 300, future: 300 };
  const [scheme] = [PRESETS[preset]?.endpoint.signature ?? []].flat();
  const { past_secs: past, future_secs: future } = scheme?.timestamp ?? {};
  return past === undefined || future === undefined ? undefined : { past, future };
}
