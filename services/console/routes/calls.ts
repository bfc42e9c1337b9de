import { z } from "zod";
import { CallLifeView, CallSearch, ForgottenView, FoundCalls } from "../../../shared/console/calls.ts";
import { callParams, page, reason } from "../parameters.ts";
import { type Answer, type Route, route } from "../route.ts";

const CALL = "/api/v1/calls/{call_id}";

/** As `postern calls`. */
export const callRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/calls",
    access: "viewer",
    summary: "Search calls in any state, newest first",
    isHeavy: true,
    query: CallSearch.extend(page),
    answers: { 200: { description: "A page of calls.", schema: FoundCalls } },
    answer: async ({ query: { limit, cursor, ...search } }, { api }) => ({
      status: 200,
      json: await api.calls.find(search, { limit, cursor }),
    }),
  }),
  route({
    method: "GET",
    path: CALL,
    access: "viewer",
    summary: "Show everything kept of a call in any state, except the bytes of body and result",
    params: callParams,
    answers: { 200: { description: "The call and its history.", schema: CallLifeView } },
    problems: ["call.unknown"],
    answer: async ({ params }, { api }) => ({ status: 200, json: await api.calls.show(params.call_id) }),
  }),
  route({
    method: "GET",
    path: `${CALL}/body`,
    access: "viewer",
    summary: "Get the body of a call, as it was received, while it is kept",
    isHeavy: true,
    params: callParams,
    answers: {
      200: { description: "The bytes, of any type.", contentType: "application/octet-stream" },
    },
    audit: ["read_body"],
    problems: ["call.unknown", "call.no_body"],
    answer: async ({ params: { call_id: id } }, { api }) => toBytes(id, await api.calls.body(id)),
  }),
  route({
    method: "GET",
    path: `${CALL}/result`,
    access: "viewer",
    summary: "Get the result of a call, as the runner returned it, while it is kept",
    isHeavy: true,
    params: callParams,
    answers: {
      200: { description: "The bytes, of any type.", contentType: "application/octet-stream" },
    },
    audit: ["read_result"],
    problems: ["call.unknown", "call.no_result"],
    answer: async ({ params: { call_id: id } }, { api }) =>
      toBytes(`${id}-result`, await api.calls.result(id)),
  }),
  route({
    method: "POST",
    path: `${CALL}/forget`,
    access: "operator",
    summary: "Forget a call: delete its body, metadata, result and attempts; it never runs again",
    params: callParams,
    body: z.strictObject({ reason }),
    answers: {
      200: { description: "The call is forgotten, or was forgotten before.", schema: ForgottenView },
    },
    audit: ["forget"],
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
