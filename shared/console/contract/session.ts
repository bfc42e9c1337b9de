import { z } from "zod";
import { ROLES } from "../../config/operator-toml.ts";
import { isoTime } from "../view.ts";
import type { Table } from "./operation.ts";

const SessionView = z
  .object({
    /** The name of the token. */
    name: z.string(),
    role: z.enum(ROLES),
    /**
     * End of the session. Null if the request has a token instead of a session, or if the console needs no token.
     */
    ends_at: isoTime.nullable(),
  })
  .meta({ id: "Session" });
export type SessionView = z.infer<typeof SessionView>;

/**
 * Operations that sign the user of the page in and out. Programs need no session: they send their token with each
 * request.
 */
export const SESSION = {
  signIn: {
    method: "POST",
    path: "/session",
    role: "anybody",
    summary: "Start a session: exchange a token for a cookie",
    body: z.strictObject({ token: z.string().min(1).max(1024) }),
    answer: SessionView,
    answerText: "The session. Set-Cookie has its cookie.",
    setsCookie: true,
    problems: ["operator.unauthorized"],
    audit: ["sign_in"],
  },
  getSession: {
    method: "GET",
    path: "/session",
    role: "viewer",
    summary: "Show the current user",
    answer: SessionView,
    answerText: "The session.",
  },
  signOut: {
    method: "DELETE",
    path: "/session",
    role: "anybody",
    summary: "End the session, if any",
    answerText: "The session has ended.",
    setsCookie: true,
    audit: ["sign_out"],
  },
  getOpenApi: {
    method: "GET",
    path: "/openapi.json",
    role: "anybody",
    summary: "Get this document",
    answer: z.looseObject({ openapi: z.literal("3.1.0"), paths: z.looseObject({}) }),
    answerText: "This API as OpenAPI 3.1.",
  },
} satisfies Table;
