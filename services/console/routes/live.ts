import { z } from "zod";
import { ANYBODY_HERE } from "../auth/who.ts";
import { type Route, route } from "../route.ts";
import { flowQuery } from "./overview.ts";

const liveQuery = z.strictObject({
  /** Also what flows, as `/api/v1/flow` has it of this span and, if one is given, of this job. */
  flow: flowQuery.shape.span.unwrap().optional(),
  job: flowQuery.shape.job,
  /** Also the jobs, as `/api/v1/jobs` has them. */
  jobs: z
    .literal("true")
    .transform(() => true)
    .optional(),
});

/** What is live on the page. */
export const liveRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/live",
    access: "viewer",
    summary: "Stream the overview as server-sent events, on request with the flow and the jobs",
    query: liveQuery,
    answers: {
      200: { description: "A stream, which ends with the session.", contentType: "text/event-stream" },
    },
    problems: ["request.rate_limited"],
    async answer({ query: wanted }, { live, who = ANYBODY_HERE, req, sessions }) {
      const holds = async () => who.by !== "session" || (await sessions.find(req)) !== undefined;
      return { status: 200, stream: (res) => live.open(req, res, { wanted, who, holds }) };
    },
  }),
];
