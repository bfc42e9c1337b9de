import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createRejectedList } from "../../../shared/telemetry/rejected/list.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";
import { contentsOf } from "../../support/redis-content.ts";
import { ask, NAMED, NOBODYS, startAskable, tokenOf } from "./routes/called.ts";

const webhooks = useWebhooks();

const token = tokenOf(NOBODYS);
const CALL = `/webhooks/calls/${NOBODYS}`;

/** Places where a client may put a token by mistake, with the request's path. */
const PLACES: Record<string, { path: string; headers?: Record<string, string>; method?: string }> = {
  "the query of a call's state": { path: `${CALL}?token=${token}` },
  "the query of a mistyped path": { path: `${CALL}/reslut?token=${token}` },
  "the query of a mistyped path, as a name": { path: `${CALL}/reslut?token&${token}=1` },
  "the path of a result": { path: `${CALL}/result/${token}` },
  "the path of a result, in place of its query": { path: `${CALL}/result&token=${token}` },
  "a path, with its sign encoded": { path: `${CALL}/${token.replace("_", "%5F")}` },
  "a path, directly after a word": { path: `${CALL}/result${token}` },
  "the place of a call": { path: `/webhooks/calls/${token}/result` },
  "the query of an endpoint": { path: `${NAMED}?token=${token}`, method: "GET" },
  "the path of an endpoint": { path: `${NAMED}/${token}`, method: "POST" },
  "the name of a header": { path: `${CALL}/reslut`, headers: { [token]: "1" } },
  "the credential for a mistyped path": {
    path: `${CALL}/reslut`,
    headers: { Authorization: `Bearer ${token}` },
  },
  "a URL of a proxy's client": { path: `http://${token}@example.com${CALL}/${token}` },
};

test.each(Object.entries(PLACES))(
  "a token in %s is in no log, answer, event or stored data of the request",
  async (_place, { path, headers = {}, method = "GET" }) => {
    const gateway = await startAskable(webhooks);
    const answer = await send(gateway.address, { method, path, headers });
    const second = await send(gateway.address, { method, path: "/a/path/of/nothing" });
    expect(second.status).toBe(404);
    const list = createRejectedList(webhooks.redis.partition);
    await eventually("what was refused later is kept", async () =>
      (await list.matching({}, 10)).newest.some(({ path: at }) => at === "/a/path/of/nothing"),
    );
    const { client } = webhooks.redis;
    const kept = await contentsOf(client, await client.keys("*"));
    const all = JSON.stringify([kept, gateway.log.events, answer.text, answer.headers]);
    expect(all).not.toContain(token.slice(3));
  },
);

test("a token in a query for a result, wrong or right, is neither logged nor stored", async () => {
  const gateway = await startAskable(webhooks);
  const wrong = tokenOf(`c_${"1".repeat(32)}`);
  const statuses = [];
  for (const given of [wrong, token]) statuses.push((await ask(gateway, NOBODYS, { token: given })).status);
  expect(statuses).toEqual([401, 404]);
  const { client } = webhooks.redis;
  const kept = JSON.stringify([await contentsOf(client, await client.keys("*")), gateway.log.events]);
  for (const given of [wrong, token]) expect(kept).not.toContain(given.slice(3));
});
