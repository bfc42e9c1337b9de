import { z } from "zod";

/*
 * What an operator is shown, as JSON: by a command with --json, and by the API of `postern operator`. Members are added, and never renamed
 * or removed. A member that is not known is null or absent.
 */

export const count = z.int().min(0);
export const isoTime = z.iso.datetime();
/** As it is asked for, of any zone. */
export const askedTime = z.iso.datetime({ offset: true });
