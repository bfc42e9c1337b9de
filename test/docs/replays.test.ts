import { beforeAll, describe, expect, test } from "vitest";
import { PRESETS } from "../../shared/webhook-auth/presets/presets.ts";
import { at, endpointFor, sendersWithPreset } from "../fixtures/senders/endpoints.ts";
import { type Sender, type Signed, withHeader } from "../fixtures/senders/sender.ts";
import { type TestWebhooks, useWebhooks } from "../fixtures/webhooks.ts";
import { send } from "../support/http.ts";
import { sample } from "../support/long-run.ts";
import { REPLAY_REFUSED } from "./senders.ts";

const SIGNED_AT = Date.parse("2026-11-22T12:00:00Z");
const DELIVERY = "d-1-cc78-11e3-81ab";
const webhooks = useWebhooks();
let gateway: TestWebhooks;
let now = SIGNED_AT;

/** The sender for which the page documents that no delivery id exists. */
const WITHOUT_ID = "slack (slash command)";

/** Presets that refuse a replay. Presets that sign no time, such as GitLab's token, are left out. */
const refusing = sendersWithPreset.filter(
  ({ name, preset, timed }) => REPLAY_REFUSED.includes(preset) && timed && name !== WITHOUT_ID,
);
const pathOf = (sender: Sender) => `/s/${refusing.indexOf(sender)}`;

beforeAll(async () => {
  const endpoints = refusing.map((sender) =>
    endpointFor(sender, pathOf(sender), [sender.key("live").configured]),
  );
  gateway = await webhooks.start({ endpoints, clock: () => now });
});

test("every preset of which docs/senders.md says that a replay is refused is tested for it", () => {
  // aws-sns.test.ts and paypal.test.ts replay their own deliveries.
  const tested = new Set([...refusing.map(({ preset }) => preset), "aws-sns", "paypal"]);
  expect([...tested].sort()).toEqual([...REPLAY_REFUSED].sort());
});

describe.each(sample(refusing, 8).map((sender) => [sender.name, sender] as const))("%s", (_name, sender) => {
  const recorded = sender.sign(sender.sample, {
    keys: [sender.key("live")],
    at: new Date(SIGNED_AT),
    id: DELIVERY,
  });

  async function postAfter(secs: number, request: Signed = recorded) {
    now = SIGNED_AT + secs * 1000;
    const { target, headers, body } = at(pathOf(sender), request);
    return send(gateway.address, { path: target, headers: headers.flat(), body });
  }

  test("is the same call if it is recorded and sent again within its past_secs, and refused after them", async () => {
    const [{ timestamp } = {}] = [PRESETS[sender.preset]?.endpoint.signature ?? []].flat();
    const past = timestamp?.past_secs ?? 0;
    const first = await postAfter(0);
    expect(first.status).toBeLessThan(300);
    const replay = await postAfter(past);
    expect([replay.status, replay.headers["idempotent-replayed"]]).toEqual([first.status, "true"]);
    expect((await postAfter(past + 1)).status).toBe(401);
    await webhooks.onlyCall();
  });

  const { id } = sender;
  if (id !== undefined && "header" in id)
    test("is refused under another delivery id", async () => {
      const header = id !== undefined && "header" in id ? id.header : "";
      expect((await postAfter(0, withHeader(recorded, header, "another-id"))).status).toBe(401);
      expect(await webhooks.waiting()).toEqual([]);
    });
});
