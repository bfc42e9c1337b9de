import { z } from "zod";
import type { BulkAction } from "../../../shared/operator/bulk.ts";
import { BulkOrder, BulkRunView } from "../../../shared/operator/bulk-runs.ts";
import { reason, runParams } from "../parameters.ts";
import { type Route, route } from "../route.ts";

const RunList = z.object({ runs: z.array(BulkRunView) });

/** Nobody replays all failed calls because a filter was forgotten. */
const hasSelection = ({ all, call_ids, filter }: z.infer<typeof BulkOrder>): boolean =>
  all === true || call_ids !== undefined || Object.values(filter).some((each) => each !== undefined);
const NO_SELECTION = {
  path: ["filter"],
  message: "is empty, and no call is named; `all` means every failed call",
};

const { force, ...common } = BulkOrder.shape;

/** Replaying and discarding many failed calls: each is a resource that says how far it is. */
export const bulkRoutes: readonly Route[] = [
  ...routesOf("replay", "/api/v1/failed/replays", "replay", z.strictObject({ ...common, force, reason })),
  ...routesOf("discard", "/api/v1/failed/discards", "discard", z.strictObject({ ...common, reason })),
];

function routesOf(action: BulkAction, list: string, noun: string, order: z.ZodObject): Route[] {
  const one = `${list}/{run_id}`;
  return [
    route({
      method: "POST",
      path: list,
      access: "operator",
      summary: `Begin to ${noun} failed calls by a filter or by their ids, or count how many it would be`,
      body: order
        .transform((given) => ({ force: false, ...given }) as BulkOrder & { reason: string })
        .refine(hasSelection, NO_SELECTION),
      answers: { 202: { description: "It has begun; Location says where to look", schema: BulkRunView } },
      problems: ["run.too_many"],
      async answer({ body }, { api }) {
        const run = await api.bulkRuns.begin(action, body);
        return { status: 202, json: run, headers: { Location: `${list}/${run.id}` } };
      },
    }),
    route({
      method: "GET",
      path: list,
      access: "viewer",
      summary: `List the last ${noun}s of many calls, the newest first`,
      answers: {
        200: { description: "The 200 newest at most; one that has ended for 7 days", schema: RunList },
      },
      answer: async (_asked, { api }) => ({ status: 200, json: { runs: await api.bulkRuns.list(action) } }),
    }),
    route({
      method: "GET",
      path: one,
      access: "viewer",
      summary: `Show how far a ${noun} of many calls is`,
      params: runParams,
      answers: { 200: { description: "The run", schema: BulkRunView } },
      problems: ["run.unknown"],
      answer: async ({ params }, { api }) => ({
        status: 200,
        json: await api.bulkRuns.show(action, params.run_id),
      }),
    }),
    route({
      method: "DELETE",
      path: one,
      access: "operator",
      summary: `Cancel a ${noun} of many calls; the calls in hand are finished, and what is done stays so`,
      params: runParams,
      answers: {
        200: { description: "The run, which is cancelling, or has ended before", schema: BulkRunView },
      },
      problems: ["run.unknown"],
      answer: async ({ params }, { api }) => ({
        status: 200,
        json: await api.bulkRuns.cancel(action, params.run_id),
      }),
    }),
    route({
      method: "POST",
      path: `${one}/resume`,
      access: "operator",
      summary: `Go on with what is left of a ${noun} that was cancelled or has stopped`,
      params: runParams,
      answers: { 202: { description: "It goes on", schema: BulkRunView } },
      problems: ["run.unknown", "run.not_resumable", "run.too_many"],
      answer: async ({ params }, { api }) => ({
        status: 202,
        json: await api.bulkRuns.resume(action, params.run_id),
      }),
    }),
  ];
}
