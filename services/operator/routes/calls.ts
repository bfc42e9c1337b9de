import { z } from "zod";
import { CallLifeView, CallSearch, ForgottenView, FoundCalls } from "../../../shared/operator/calls.ts";
import { callParams, page, reason } from "../parameters.ts";
import { type Answer, type Route, route } from "../route.ts";

const CALL = "/api/v1/calls/{call_id}";

/** As `postern calls`. */
export const callRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/calls",
    access: "viewer",
    summary: "Search for calls by whatever is known of them, wherever they are, the newest first",
    isHeavy: true,
    query: CallSearch.extend(page),
    answers: { 200: { description: "A page of them", schema: FoundCalls } },
    answer: async ({ query: { limit, cursor, ...search } }, { api }) => ({
      status: 200,
      json: await api.calls.find(search, { limit, cursor }),
    }),
  }),
  route({
    method: "GET",
    path: CALL,
    access: "viewer",
    summary:
      "Show the life of a call, whatever became of it: all that is kept but the bytes of body and result",
    params: callParams,
    answers: { 200: { description: "Its life", schema: CallLifeView } },
    problems: ["call.unknown"],
    answer: async ({ params }, { api }) => ({ status: 200, json: await api.calls.show(params.call_id) }),
  }),
  route({
    method: "GET",
    path: `${CALL}/body`,
    access: "viewer",
    summary: "Get the body of a call, as it came, while it is kept",
    isHeavy: true,
    params: callParams,
    answers: {
      200: { description: "The bytes, whatever they are", contentType: "application/octet-stream" },
    },
    problems: ["call.unknown", "call.no_body"],
    answer: async ({ params: { call_id: id } }, { api }) => toBytes(id, await api.calls.body(id)),
  }),
  route({
    method: "GET",
    path: `${CALL}/result`,
    access: "viewer",
    summary: "Get the result of a call, as the runner gave it, while it is kept",
    isHeavy: true,
    params: callParams,
    answers: {
      200: { description: "The bytes, whatever they are", contentType: "application/octet-stream" },
    },
    problems: ["call.unknown", "call.no_result"],
    answer: async ({ params: { call_id: id } }, { api }) =>
      toBytes(`${id}-result`, await api.calls.result(id)),
  }),
  route({
    method: "POST",
    path: `${CALL}/forget`,
    access: "operator",
    summary: "Delete what is kept of a call's sender: body, metadata, result, attempts; it never runs again",
    params: callParams,
    body: z.strictObject({ reason }),
    answers: { 200: { description: "It is forgotten, or was before", schema: ForgottenView } },
    problems: ["call.unknown", "call.in_hand", "call.undecided"],
    answer: async ({ params, body }, { api }) => ({
      status: 200,
      json: await api.calls.forget(params.call_id, body.reason),
    }),
  }),
];

/** A stranger has written them: no browser is to show them. */
export function toBytes(name: string, bytes: Uint8Array): Answer {
  return {
    ...{ status: 200, bytes, contentType: "application/octet-stream" },
    headers: { "Content-Disposition": `attachment; filename="${name}"` },
  };
}
