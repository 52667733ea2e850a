# Writes the text of files, one after the other, as a constant of C++:
#   cmake -DNAME=report_style -DOUTPUT=x.cpp -DFILES=a.css,b.css -P embed.cmake
# Without files, it is empty. Each file is a literal of its own, as some compilers take at most
# 64 kB in one.
string(REPLACE "," ";" files "${FILES}")
set(text "\"\"")
foreach(file ${files})
  file(READ ${file} part)
  string(APPEND text "\nR\"embedded(${part})embedded\"")
endforeach()
file(WRITE ${OUTPUT} "namespace plangrad::examples {\nextern const char* const ${NAME};\n"
                     "const char* const ${NAME} =${text};\n}  // namespace plangrad::examples\n")
