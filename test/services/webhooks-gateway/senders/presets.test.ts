import { beforeAll, describe, expect, test } from "vitest";
import { PRESETS } from "../../../../shared/webhook-auth/presets/presets.ts";
import type { Description } from "../../../../shared/webhook-auth/sender-description.ts";
import { at, described, endpointFor } from "../../../fixtures/senders/endpoints.ts";
import { type Occasion, type Sender, type Signed, sent } from "../../../fixtures/senders/sender.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { LONG_RUN, sample } from "../../../support/long-run.ts";

const NOW = Date.parse("2026-11-22T12:00:00Z");
const webhooks = useWebhooks();
let gateway: TestWebhooks;
const pathOf = (sender: Sender) => `/s/${described.indexOf(sender)}`;

beforeAll(async () => {
  const endpoints = described.map((sender) =>
    endpointFor(sender, pathOf(sender), [sender.key("new").configured, sender.key("old").configured]),
  );
  gateway = await webhooks.start({ endpoints, clock: () => NOW });
});

const post = (sender: Sender, signed: Signed) => send(gateway.address, sent(at(pathOf(sender), signed)));

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

test("every preset has a sender that signs by itself, against which it is tested", () => {
  const tested = new Set(described.map(({ preset }) => preset));
  expect(Object.keys(PRESETS).filter((preset) => !tested.has(preset))).toEqual([]);
});

describe.each(described.map((sender) => [sender.name, sender] as const))("%s", (_name, sender) => {
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

  test("is refused under a secret that is not configured", async () => {
    expect(
      (await post(sender, sender.sign(sender.sample, occasion(sender, { key: "foreign" })))).status,
    ).toBe(401);
    expect(await webhooks.waiting()).toEqual([]);
  });

  if (LONG_RUN && !sender.needsBody)
    test("is accepted with an empty body", async () => {
      const answer = await post(sender, sender.sign(Buffer.alloc(0), occasion(sender)));
      expect(answer.status).toBe(sender.preset === "x" ? 401 : successOf(sender));
    });

  if (sender.signsWithAll)
    test("is accepted if one of several signatures is under a live secret", async () => {
      const on = occasion(sender);
      const keys: Occasion["keys"] = [sender.key("foreign"), sender.key("old")];
      expect((await post(sender, sender.sign(sender.sample, { ...on, keys }))).status).toBe(
        successOf(sender),
      );
    });

  test.each((sender.decoys ?? []).map((decoy) => [decoy.name, decoy] as const))(
    "is refused if %s",
    async (_decoy, decoy) => {
      expect((await post(sender, decoy.sign(sender.sample, occasion(sender)))).status).toBe(401);
      expect(await webhooks.waiting()).toEqual([]);
    },
  );

  const window = windowOf(sender);
  if (sender.timed && window !== undefined)
    test("is refused a second before and after its window of time, and accepted within", async () => {
      const { past, future } = window;
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

/** The window of the preset; undefined if it has none. */
function windowOf({ preset, name }: Sender): { past: number; future: number } | undefined {
  if (name === "grafana (with a timestamp header)") return { past: 300, future: 300 };
  const [scheme] = [PRESETS[preset]?.endpoint.signature ?? []].flat();
  const { past_secs: past, future_secs: future } = scheme?.timestamp ?? {};
  return past === undefined || future === undefined ? undefined : { past, future };
}
