import { z } from "zod";
import type { BulkAction } from "../../../shared/operator/bulk.ts";
import { BulkOrder, BulkRunView } from "../../../shared/operator/bulk-runs.ts";
import { reason, runParams } from "../parameters.ts";
import { type Route, route } from "../route.ts";
import { runRoutes } from "./runs.ts";

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
  ...routesOf("replay", "/api/v1/failed/replays", z.strictObject({ ...common, force, reason })),
  ...routesOf("discard", "/api/v1/failed/discards", z.strictObject({ ...common, reason })),
];

function routesOf(action: BulkAction, list: string, order: z.ZodObject): Route[] {
  return [
    route({
      method: "POST",
      path: list,
      access: "operator",
      summary: `Begin to ${action} failed calls by a filter or by their ids, or count how many it would be`,
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
    ...runRoutes({
      path: list,
      schema: BulkRunView,
      summaries: {
        list: `List the last ${action}s of many calls, the newest first`,
        kept: "The 200 newest at most; one that has ended for 7 days",
        show: `Show how far a ${action} of many calls is`,
        cancel: `Cancel a ${action} of many calls; the calls in hand are finished, and what is done stays so`,
      },
      runsOf: ({ bulkRuns }) => ({
        list: (limit) => bulkRuns.list(action, limit),
        show: (id) => bulkRuns.show(action, id),
        cancel: (id) => bulkRuns.cancel(action, id),
      }),
    }),
    route({
      method: "POST",
      path: `${list}/{run_id}/resume`,
      access: "operator",
      summary: `Go on with what is left of a ${action} that was cancelled or has stopped`,
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
