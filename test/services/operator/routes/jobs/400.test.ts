import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each(["cursor=nonsense", "cursor=eyJhIjoxfQ", "limit=0", "limit=501"])(
  "a page of jobs that %s asks for is refused: 400",
  async (query) => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/jobs?${query}`))).toEqual([400, "request.malformed"]);
  },
);
