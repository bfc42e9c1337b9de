import { z } from "zod";
import { RejectedDetail, RejectedFilter, RejectedPage } from "../../../shared/console/rejected.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { REJECTED_ID_BEGINNING } from "../../../shared/telemetry/rejected/entry.ts";
import { flag, page } from "../parameters.ts";
import { type Route, route } from "../route.ts";
import { toBytes } from "./calls.ts";

const REQUEST = "/api/v1/rejected/{rejected_id}";

const params = z.strictObject({ rejected_id: z.string().regex(REJECTED_ID_BEGINNING) });

/** As `postern rejected`. */
export const rejectedRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/rejected",
    access: "viewer",
    summary: "List the latest refused webhooks and their reasons, newest first",
    isHeavy: true,
    query: RejectedFilter.extend({ ...page, unknown: flag.optional() }),
    answers: { 200: { description: "A page of requests, and the number of matches.", schema: RejectedPage } },
    answer: async ({ query: { limit, cursor, ...filter } }, { api }) => ({
      status: 200,
      json: await api.rejected.page(filter, { limit, cursor }),
    }),
  }),
  route({
    method: "GET",
    path: REQUEST,
    access: "viewer",
    summary: "Show everything kept of a refused request, by its id or a unique prefix of it",
    isHeavy: true,
    params,
    answers: { 200: { description: "The request.", schema: RejectedDetail } },
    audit: ["read_rejected"],
    problems: ["rejected.unknown", "rejected.ambiguous"],
    answer: async ({ params: { rejected_id: id } }, { api }) => ({
      status: 200,
      json: await api.rejected.show(id),
    }),
  }),
  route({
    method: "GET",
    path: `${REQUEST}/body`,
    access: "viewer",
    summary: "Get the body of a refused request, or its first bytes, if its endpoint keeps them",
    isHeavy: true,
    params,
    answers: {
      200: { description: "The bytes, of any type.", contentType: "application/octet-stream" },
    },
    audit: ["read_rejected"],
    problems: ["rejected.unknown", "rejected.ambiguous", "rejected.no_body"],
    async answer({ params: { rejected_id: beginning } }, { api }) {
      const { id, body_base64: body } = await api.rejected.show(beginning);
      if (body === null)
        throw AppError.public(
          "rejected.no_body",
          `${id}: its body was not kept: either it had not arrived when the request was refused, or the endpoint does not set keep_rejected_bodies`,
        );
      return toBytes(id, Buffer.from(body, "base64"));
    },
  }),
];
