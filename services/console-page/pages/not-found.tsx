import { PLACES } from "../places.ts";
import { linkTo } from "../route.ts";
import { Empty } from "../ui/notice.tsx";
import { PageHead } from "../ui/page-head.tsx";

export function NotFound() {
  return (
    <>
      <PageHead title="Page not found" />
      <Empty title="No page at this address">
        The link may be incomplete. Go to{" "}
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
