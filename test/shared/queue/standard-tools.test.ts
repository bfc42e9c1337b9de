import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { expect, test } from "vitest";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { openQueues } from "../../support/queues.ts";
import { contentsOf } from "../../support/redis-content.ts";

const fixture = useFailedCalls();
const QUEUE = "webhook/7/1";
const REASON = "the runner said no";

type Board = Parameters<typeof createBullBoard>[0];
type ServerAdapter = Board["serverAdapter"];
type Shown = { counts: Record<string, number>; jobs: { id: string; failedReason?: string }[] };

/** Requests a queue's calls from Bull Board's own handler. The server adapter takes the place of a web framework. */
async function boardOf(queue: Board["queues"][number], status: string): Promise<Shown> {
  let routes: Parameters<ServerAdapter["setApiRoutes"]>[0] = [];
  let queues: Parameters<ServerAdapter["setQueues"]>[0] = new Map();
  const serverAdapter = new Proxy({} as ServerAdapter, {
    get: (_, name) => (given: never) => {
      if (name === "setApiRoutes") routes = given;
      if (name === "setQueues") queues = given;
      return serverAdapter;
    },
  });
  createBullBoard({ queues: [queue], serverAdapter });
  const list = routes.find(({ method, route }) => method === "get" && route === "/api/queues");
  const query = { activeQueue: QUEUE, status, page: "1", jobsPerPage: "10" };
  const request = { queues, query, params: {}, body: {}, headers: {}, uiConfig: {} };
  const { body } = (await list?.handler(request)) ?? {};
  return (body as { queues: [Shown] }).queues[0];
}

test("BullMQ's Queue and Bull Board list the waiting and failed calls, and change nothing", async () => {
  const { client } = fixture.redis;
  const failed = await fixture.fail([{}, {}], "runner.refused", REASON);
  const waiting = [await fixture.add(), await fixture.add(), await fixture.add({ claimed: false })];
  const everything = async () => contentsOf(client, await client.keys("*"));
  const before = await everything();

  const tools = openQueues(client);
  const queue = tools.of(QUEUE);
  const counts = { waiting: 3, failed: 2, active: 0, delayed: 0, completed: 0 };
  expect(await queue.getJobCounts("waiting", "failed", "active", "delayed", "completed")).toEqual(counts);
  expect((await queue.getWaiting()).map(({ id }) => id)).toEqual(waiting);
  const wrong = `runner.refused: ${REASON}`;
  const found = (await queue.getFailed()).map(({ id, failedReason, data }) => ({
    id,
    failedReason,
    of: data.id,
  }));
  expect(found).toHaveLength(2);
  expect(found).toEqual(expect.arrayContaining(failed.map((id) => ({ id, failedReason: wrong, of: id }))));

  const adapter = new BullMQAdapter(queue, { readOnlyMode: true });
  const [inWait, inFailed] = [await boardOf(adapter, "waiting"), await boardOf(adapter, "failed")];
  expect(inWait.counts).toMatchObject(counts);
  expect(inWait.jobs.map(({ id }) => id).sort()).toEqual(waiting.toSorted());
  expect(inFailed.jobs.map(({ id }) => id).sort()).toEqual(failed.toSorted());
  expect(inFailed.jobs.map(({ failedReason }) => failedReason)).toEqual([wrong, wrong]);

  expect(await everything()).toEqual(before);
  await tools.close();
});
