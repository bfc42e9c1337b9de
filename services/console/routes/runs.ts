import { z } from "zod";
import type { OperatorApi } from "../../../shared/console/api.ts";
import { page, runParams } from "../parameters.ts";
import { type Route, route } from "../route.ts";

type Runs = {
  list(limit: number): Promise<unknown[]>;
  show(id: string): Promise<unknown>;
  cancel(id: string): Promise<unknown>;
};

type Options = {
  path: string;
  schema: z.ZodType;
  /** What each of the three does, and which runs the list has. */
  summaries: Record<keyof Runs | "kept", string>;
  runsOf: (api: OperatorApi) => Runs;
};

/** The routes that runs of every kind have: the list of them, one of them, and to cancel one. */
export function runRoutes({ path, schema, summaries, runsOf }: Options): Route[] {
  const one = { path: `${path}/{run_id}`, params: runParams, problems: ["run.unknown"] } as const;
  return [
    route({
      method: "GET",
      path,
      access: "viewer",
      summary: summaries.list,
      query: z.strictObject({ limit: page.limit }),
      answers: { 200: { description: summaries.kept, schema: z.object({ runs: z.array(schema) }) } },
      answer: async ({ query }, { api }) => ({
        status: 200,
        json: { runs: await runsOf(api).list(query.limit) },
      }),
    }),
    route({
      ...one,
      method: "GET",
      access: "viewer",
      summary: summaries.show,
      answers: { 200: { description: "The bulk operation.", schema } },
      answer: async ({ params }, { api }) => ({ status: 200, json: await runsOf(api).show(params.run_id) }),
    }),
    route({
      ...one,
      method: "DELETE",
      access: "operator",
      summary: summaries.cancel,
      audit: ["cancel_run"],
      answers: {
        200: { description: "The bulk operation, which is being cancelled or had already ended.", schema },
      },
      answer: async ({ params }, { api }) => ({ status: 200, json: await runsOf(api).cancel(params.run_id) }),
    }),
  ];
}
