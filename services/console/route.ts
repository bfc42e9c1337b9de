import type { IncomingMessage, ServerResponse } from "node:http";
import type { z } from "zod";
import type { Role } from "../../shared/config/operator-toml.ts";
import type { OperatorApi } from "../../shared/console/api.ts";
import type { Overview } from "../../shared/console/overview/overview.ts";
import type { ErrorCode } from "../../shared/platform/errors/codes.ts";
import type { AuditAction, AuditEntry } from "../../shared/redis/audit/actions.ts";
import type { CheckToken } from "./auth/identify.ts";
import type { Sessions } from "./auth/sessions.ts";
import type { Who } from "./auth/who.ts";
import type { Live } from "./live.ts";

/** What a route has beside its request. */
export type Context = {
  /** What this operator sees and does. The audit has the name. */
  api: OperatorApi;
  overview: Overview;
  live: Live;
  /** Who asks. Undefined at a route that is open. */
  who: Who | undefined;
  /** The address that the request counts for. */
  address: string;
  req: IncomingMessage;
  /** Aborted once nobody waits for the answer any more. */
  signal: AbortSignal;
  sessions: Sessions;
  checkToken: CheckToken;
  /** Writes a line of the audit about a session. It never fails: if Redis takes no writes, the log alone has it. */
  audit(
    action: "sign_in" | "sign_out",
    entry: Pick<AuditEntry, "by" | "selection"> & { session: string },
  ): Promise<void>;
};

type Headers = Readonly<Record<string, string>>;

export type Answer =
  | { status: number; json: unknown; headers?: Headers }
  | { status: 204; headers?: Headers }
  | { status: 200; bytes: Uint8Array; contentType: string; headers?: Headers }
  /** Gives the answer itself, and goes on with it. */
  | { status: 200; stream: (res: ServerResponse) => void };

/** What a route answers with a status: JSON of this schema, bytes of this type, or nothing. */
export type Answers = Readonly<
  Record<number, { description: string; schema?: z.ZodType; contentType?: string }>
>;

type Common = {
  method: "GET" | "POST" | "DELETE";
  /** With the names of its parameters in braces. */
  path: string;
  /** Who may ask. */
  access: Role | "anybody";
  summary: string;
  /** Whether it reads so much that only some may do it at once. Routes that answer with bytes have a limit of their own. */
  isHeavy?: boolean;
  answers: Answers;
  /** The lines of the audit that it leaves. */
  audit?: readonly AuditAction[];
  /** The codes with which it refuses, beside those that any route has. */
  problems?: readonly ErrorCode[];
};

type Given<Params extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType> = Common & {
  params?: Params;
  query?: Query;
  body?: Body;
  answer(
    asked: { params: z.output<Params>; query: z.output<Query>; body: z.output<Body> },
    context: Context,
  ): Promise<Answer>;
};

/** A route of the API. What it says of itself is the OpenAPI document's too. */
export type Route = Common & {
  params: z.ZodType | undefined;
  query: z.ZodType | undefined;
  body: z.ZodType | undefined;
  answer(asked: { params: unknown; query: unknown; body: unknown }, context: Context): Promise<Answer>;
};

/** Types what the route is asked with by its schemas. The server has parsed it by them. */
export function route<
  Params extends z.ZodType = z.ZodUndefined,
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
>({ params, query, body, answer, ...common }: Given<Params, Query, Body>): Route {
  return { ...common, params, query, body, answer: answer as Route["answer"] };
}
