import { PLACES } from "../places.ts";
import { linkTo } from "../route.ts";
import { Empty } from "../ui/notice.tsx";
import { PageHead } from "../ui/page-head.tsx";

export function NotFound() {
  return (
    <>
      <PageHead title="Nothing is here" />
      <Empty title="The address names no page.">
        It may have been cut when it was copied. There are{" "}
        {PLACES.map(({ name, title }, i) => (
          <span key={name}>
            {i > 0 && ", "}
            <a href={linkTo([name])}>{title}</a>
          </span>
        ))}
        .
      </Empty>
    </>
  );
}
