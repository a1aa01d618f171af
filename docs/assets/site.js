// What scrolls can be reached by the keyboard, and a button to copy is no part of the navigation.
const reach = () => {
  for (const part of document.querySelectorAll(".md-code__nav")) part.setAttribute("role", "none")
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, pre > code, .md-sidebar__scrollwrap"))
    if (part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight) part.tabIndex = 0
    else part.removeAttribute("tabindex")
}
new ResizeObserver(reach).observe(document.body)
document$.subscribe(() => requestAnimationFrame(reach))
