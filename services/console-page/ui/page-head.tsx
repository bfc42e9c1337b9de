import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

type Props = {
  title: string;
  /** Says whether the shown data is current. */
  live?: ComponentChildren;
  children?: ComponentChildren;
};

/** Head of a page: its title and controls. The title gets the focus when the page opens. */
export function PageHead({ title, live, children }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Postern`;
  }, [title]);
  useEffect(() => {
    heading.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, []);
  return (
    <div class="page-head">
      <h1 ref={heading} tabIndex={-1}>
        {title}
      </h1>
      {live}
      <div class="page-tools">{children}</div>
    </div>
  );
}
