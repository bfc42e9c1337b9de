import { z } from "zod";
import { BEGINS, type BulkAction } from "../../../shared/console/bulk.ts";
import { BulkOrder, BulkRunView } from "../../../shared/console/bulk-runs.ts";
import { reason, runParams } from "../parameters.ts";
import { type Route, route } from "../route.ts";
import { runRoutes } from "./runs.ts";

/** Nobody replays all failed calls because a filter was forgotten. */
const hasSelection = ({ all, call_ids, filter }: z.infer<typeof BulkOrder>): boolean =>
  all === true || call_ids !== undefined || Object.values(filter).some((each) => each !== undefined);
const NO_SELECTION = {
  path: ["filter"],
  message: "is empty: set a filter, call_ids, or all for every failed call",
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
      summary: `Start a bulk ${action} of failed calls, by filter or by id; with dry_run, only count them`,
      body: order
        .transform((given) => ({ force: false, ...given }) as BulkOrder & { reason: string })
        .refine(hasSelection, NO_SELECTION),
      answers: {
        202: { description: "The bulk operation was started. Location has its URL.", schema: BulkRunView },
      },
      audit: [BEGINS[action], action],
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
        list: `List bulk ${action}s, newest first`,
        kept: "At most the 200 newest. One that has ended is listed for 7 days.",
        show: `Show a bulk ${action} and its progress`,
        cancel: `Cancel a bulk ${action}; calls in flight are finished, and finished calls stay as they are`,
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
      summary: `Resume a bulk ${action} that was cancelled or has stopped`,
      params: runParams,
      answers: { 202: { description: "The bulk operation continues.", schema: BulkRunView } },
      audit: ["resume_run", action],
      problems: ["run.unknown", "run.not_resumable", "run.too_many"],
      answer: async ({ params }, { api }) => ({
        status: 202,
        json: await api.bulkRuns.resume(action, params.run_id),
      }),
    }),
  ];
}
