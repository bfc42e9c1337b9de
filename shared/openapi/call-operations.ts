import { CallStateAnswer, ResultProblem } from "./call-answers.ts";
import { type Components, type Json, type Refusal, refusalsOf, schemaOf } from "./document.ts";
import { COMMON_REFUSALS, NO_RESULT_REFUSALS, READS_REDIS } from "./refusals.ts";

const CALL_ID = {
  name: "call_id",
  in: "path",
  required: true,
  schema: { type: "string", pattern: "^c_[0-9a-f]{32}$" },
};

/** The result token as a parameter of the URL, for links that cannot send a header. */
const TOKEN = {
  name: "token",
  in: "query",
  required: false,
  description: "The result token, in place of the header `Authorization`.",
  schema: { type: "string" },
};

export const CALL_PARAMETERS = [CALL_ID, TOKEN];

const STREAM = "text/event-stream";

type Gateway = {
  name: "webhooks" | "x402";
  /** The security requirements for a call's result, in OpenAPI's form. */
  security: readonly Json[];
  /** The error codes for a request without valid authentication. */
  unauthenticated: Parameters<typeof refusalsOf>[0];
  unauthenticatedAs: (status: number) => Refusal;
};

/** Describes the routes of a gateway that read a call. */
export function callPaths(
  { name, security, unauthenticated, unauthenticatedAs }: Gateway,
  components: Components,
) {
  const parameters = CALL_PARAMETERS;
  const tags = ["calls"];
  const refusalOf = (status: number): Refusal => {
    if (status === 404) return { schema: ResultProblem, headers: ["Retry-After"] };
    return status === 502 || status === 410 ? { schema: ResultProblem } : unauthenticatedAs(status);
  };
  return {
    [`/${name}/calls/{call_id}`]: {
      get: {
        ...{ operationId: "getCall", tags, summary: "Show the state of a call." },
        description: "The state word needs no proof. The other members need the result token.",
        ...{ security: [{}, ...security], parameters },
        responses: {
          "200": {
            description: "The state of the call.",
            content: { "application/json": { schema: schemaOf(CallStateAnswer, "output", components) } },
          },
          ...refusalsOf([...COMMON_REFUSALS, ...READS_REDIS, "request.not_found"], components),
        },
      },
    },
    [`/${name}/calls/{call_id}/result`]: {
      get: {
        ...{ operationId: "getCallResult", tags, summary: "Show the result of a call." },
        ...{ security, parameters },
        responses: {
          "2XX": RUNNERS_ANSWER,
          ...refusalsOf(
            [
              ...COMMON_REFUSALS,
              ...READS_REDIS,
              ...NO_RESULT_REFUSALS,
              "request.not_found",
              ...unauthenticated,
            ],
            components,
            refusalOf,
          ),
        },
      },
    },
    [`/${name}/calls/{call_id}/events`]: {
      get: {
        ...{ operationId: "watchCall", tags, summary: "Stream what happens to a call." },
        ...{ security: [{}, ...security], parameters },
        responses: {
          "200": {
            description: "Server-sent events, until the call has ended.",
            content: { [STREAM]: { schema: { type: "string" } } },
          },
          "204": { description: "The call has ended, and the client has seen its end." },
          ...refusalsOf(
            [
              ...COMMON_REFUSALS,
              ...READS_REDIS,
              "request.not_found",
              "request.rate_limited",
              "service.draining",
            ],
            components,
          ),
        },
      },
    },
  };
}

/** An answer of the runner: a status of 2xx, and a body of any type. */
export const RUNNERS_ANSWER = {
  description: "The runner's answer, with its status and its content type.",
  content: { "*/*": { schema: {} } },
};
