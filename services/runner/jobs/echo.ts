import type { ShortJob } from "../router.ts";

/** Answers the body as it came, under its own Content-Type. */
export const echo: ShortJob = {
  name: "echo",
  handler: ({ body, contentType }) => ({ body, ...(contentType !== undefined && { contentType }) }),
};
