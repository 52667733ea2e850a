# Writes the text of files, one after the other, as a constant of C++:
#   cmake -DNAME=report_style -DOUTPUT=x.cpp -DFILES=a.css,b.css -P embed.cmake
# Each file is a literal of its own, as some compilers take at most
# 64 kB in one.
string(REPLACE "," ";" files "${FILES}")
set(text "")
foreach(file ${files})
  file(READ ${file} part)
  if(NAME STREQUAL "player_module")  # a script in the page
    string(FIND "${part}" "id=\"module\">" begin)
    math(EXPR begin "${begin} + 12")
    string(SUBSTRING "${part}" ${begin} -1 part)
    string(FIND "${part}" "</script>" end)
    string(SUBSTRING "${part}" 0 ${end} part)
  endif()
  string(APPEND text "\nR\"embedded(${part})embedded\"")
endforeach()
file(WRITE ${OUTPUT} "namespace plangrad::examples {\nextern const char* const ${NAME};\n"
                     "const char* const ${NAME} =${text};\n}  // namespace plangrad::examples\n")
