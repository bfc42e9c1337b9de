import { z } from "zod";
import { ROLES } from "../../config/operator-toml.ts";
import { isoTime } from "../view.ts";
import type { Table } from "./operation.ts";

const SessionView = z
  .object({
    /** The name of the token. */
    name: z.string(),
    role: z.enum(ROLES),
    /** Null if a token came with the request itself, or none is needed. */
    ends_at: isoTime.nullable(),
  })
  .meta({ id: "Session" });
export type SessionView = z.infer<typeof SessionView>;

/** Signing in to the page. Programs send their token with each request instead. */
export const SESSION = {
  signIn: {
    method: "POST",
    path: "/session",
    role: "anybody",
    summary: "Start a session: exchange a token for a cookie",
    body: z.strictObject({ token: z.string().min(1).max(1024) }),
    answer: SessionView,
    says: "The session. Set-Cookie has its cookie.",
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
    says: "The session.",
  },
  signOut: {
    method: "DELETE",
    path: "/session",
    role: "anybody",
    summary: "End the session, if any",
    says: "The session has ended.",
    setsCookie: true,
    audit: ["sign_out"],
  },
  getOpenApi: {
    method: "GET",
    path: "/openapi.json",
    role: "anybody",
    summary: "Get this document",
    answer: z.looseObject({ openapi: z.literal("3.1.0"), paths: z.looseObject({}) }),
    says: "This API as OpenAPI 3.1.",
  },
} satisfies Table;
