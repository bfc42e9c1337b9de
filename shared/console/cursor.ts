import { z } from "zod";
import { AppError } from "../platform/errors/app-error.ts";

/* Where a list goes on: the `next` of the answer before, which says nothing to its reader. */

/** The `next` of a page: where it goes on, or null after the last one. */
export const next = z.string().nullable();

/** What part of a list is wanted. */
export type PageAsked = { limit: number; cursor?: string | undefined };

export function toCursor(place: unknown): string | null {
  return place === undefined ? null : Buffer.from(JSON.stringify(place)).toString("base64url");
}

/** Throws `request.malformed`. */
export function fromCursor<Place extends z.ZodType>(
  place: Place,
  cursor: string | undefined,
): z.output<Place> | undefined {
  if (cursor === undefined) return undefined;
  try {
    return place.parse(JSON.parse(Buffer.from(cursor, "base64url").toString("utf8")));
  } catch (cause) {
    throw AppError.public("request.malformed", "cursor: must be the `next` of an answer of this list", {
      cause,
    });
  }
}
