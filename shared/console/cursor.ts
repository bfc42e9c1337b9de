import { z } from "zod";
import { AppError } from "../platform/errors/app-error.ts";

/* A cursor is the position at which a list continues: the `next` of the previous answer. Clients must not interpret it. */

/** Cursor of the next page; null on the last page. */
export const next = z.string().nullable();

/** The requested part of a list. */
export type PageRequest = { limit: number; cursor?: string | undefined };

export function toCursor(place: unknown): string | null {
  return place === undefined ? null : Buffer.from(JSON.stringify(place)).toString("base64url");
}

/** Decodes a cursor. Throws `request.malformed`. */
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
